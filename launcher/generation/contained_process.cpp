#include "generation/contained_process.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <csignal>

namespace autolaunch::launcher {

namespace {

// Whoever adopts what conmon leaves when it is killed: this agent, or a stand-in of it.
bool is_parent_of_containers(pid_t parent) {
    const std::string name(trim(read_file("/proc/" + std::to_string(parent) + "/comm")));
    return name == "conmon" || name.starts_with("autolaunch");
}

}  // namespace

ChildEnd end_in_container(ChildEnd end) {
    constexpr int kSignalled = 128;
    const int signal = end.exit_code.value_or(0) - kSignalled;
    if (signal <= 0 || signal > SIGRTMAX)
        return end;
    end.exit_code.reset();
    end.signal = signal;
    return end;
}

pid_t ContainedProcess::pid() const {
    try {
        long long pid = 0;
        if (!parse_integer(std::string(trim(read_file(pid_file_))), pid) || pid <= 1)
            return -1;
        const pid_t parent = parent_of(static_cast<pid_t>(pid));
        return parent > 0 && is_parent_of_containers(parent) ? static_cast<pid_t>(pid) : -1;
    } catch (const Error&) {
        return -1;
    }
}

bool ContainedProcess::signal_group(int signal) const {
    const pid_t leader = pid();
    return leader > 0 && ::kill(-leader, signal) == 0;
}

}  // namespace autolaunch::launcher
