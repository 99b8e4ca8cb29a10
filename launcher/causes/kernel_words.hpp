#pragma once
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

// What lines of the kernel's log say. Process numbers in them are the kernel's own, those outside
// all containers. Pure.

/// "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, name=python3, GPU has fallen off the bus."
struct Xid {
    int number = 0;
    std::optional<int> pid;
    bool is_hardware = false;  ///< else a program's mistake causes it, or another Xid does
};
std::optional<Xid> read_xid(std::string_view line);
bool is_hardware_xid(int number);

/// Of "Out of memory: Killed process 812 (python3) …" and "Memory cgroup out of memory: …".
std::optional<int> read_oom_victim(std::string_view line);

/// "a.out[812]: segfault at 0 ip …", "traps: a.out[812] general protection fault …".
bool tells_fault_of(std::string_view line, int pid);

/// Whether a line may concern a rank's end at all.
bool is_telling_kernel_line(std::string_view line);

}  // namespace autolaunch::launcher
