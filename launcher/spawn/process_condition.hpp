#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Why a process does not end although it was asked to: "is stopped (SIGSTOP, Ctrl-Z): SIGCONT
/// would wake it", "is traced by pid 99 (gdb)", "hangs in the kernel (uninterruptible, in
/// nfs_wait_bit_killable)"; empty: it runs or sleeps, or is gone. Reads /proc.
std::string process_condition(pid_t pid);

/// The same of the text of /proc/PID/status; `tracer` and `kernel_function` may be empty. Pure.
std::string process_condition(std::string_view status, const std::string& tracer,
                              const std::string& kernel_function);

/// Whether the process catches the signal by a function of its own. Reads /proc.
bool has_handler(pid_t pid, int signal);

}  // namespace autolaunch::launcher
