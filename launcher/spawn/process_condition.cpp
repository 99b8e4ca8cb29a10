#include "spawn/process_condition.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <cstdlib>

namespace autolaunch::launcher {

namespace {

std::string read_of_process(const std::string& pid, const char* file) {
    try {
        return read_file("/proc/" + pid + "/" + file);
    } catch (const Error&) {
        return {};  // it is gone, or another user's
    }
}

std::string status_field(std::string_view status, std::string_view name) {
    const std::string start = "\n" + std::string(name) + ":";
    const std::size_t at = status.find(start);
    if (at == std::string_view::npos)
        return {};
    const std::string_view rest = status.substr(at + start.size());
    return std::string(trim(rest.substr(0, rest.find('\n'))));
}

}  // namespace

std::string process_condition(std::string_view status, const std::string& tracer,
                              const std::string& kernel_function) {
    const std::string state = status_field(status, "State");
    const std::string traced_by = status_field(status, "TracerPid");
    if (state.starts_with('t') || (state.starts_with('T') && traced_by != "0"))
        return "is stopped by what traces it, pid " + traced_by +
               (tracer.empty() ? "" : " (" + tracer + ")");
    if (state.starts_with('T'))
        return "is stopped (SIGSTOP, Ctrl-Z): SIGCONT would wake it";
    if (state.starts_with('D'))
        return "hangs in the kernel (uninterruptible" +
               (kernel_function.empty() || kernel_function == "0" ? ""
                                                                  : ", in " + kernel_function) +
               "): a dead file system, a driver";
    return {};
}

std::string process_condition(pid_t pid) {
    const std::string number = std::to_string(pid);
    const std::string status = read_of_process(number, "status");
    const std::string traced_by = status_field(status, "TracerPid");
    const std::string tracer = traced_by.empty() || traced_by == "0"
                                   ? std::string()
                                   : std::string(trim(read_of_process(traced_by, "comm")));
    return process_condition(status, tracer, std::string(trim(read_of_process(number, "wchan"))));
}

bool has_handler(pid_t pid, int signal) {
    const std::string status = read_of_process(std::to_string(pid), "status");
    const unsigned long long caught =
        std::strtoull(status_field(status, "SigCgt").c_str(), nullptr, 16);
    return (caught >> (signal - 1) & 1) != 0;
}

}  // namespace autolaunch::launcher
