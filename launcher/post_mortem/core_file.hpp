#pragma once
#include "exit_codes/rank_exited.hpp"
#include "plan/launch_plan.hpp"

#include <string>

namespace autolaunch::launcher {

/// What the kernel does with the core of a process, as /proc/sys/kernel says it.
struct CoreRules {
    std::string pattern;        ///< core_pattern
    bool appends_pid = false;   ///< core_uses_pid
    bool is_forbidden = false;  ///< the limit on core files is 0
};

/// Of the process that dumped.
struct CoreProcess {
    int pid = 0, signal = 0;
    bool dumped = false;  ///< the kernel says so
    std::string program;  ///< its path
    std::string workdir;  ///< where it was started
    std::string hostname;
};

/// The file's path by a core_pattern that is no pipe, with '*' where a part is not known. Pure.
std::string core_path(const CoreRules& rules, const CoreProcess& process);

/// "core file: gdb /usr/bin/python3 /tmp/core.8123", "coredumpctl gdb 8123", or why there is none;
/// empty where there is nothing to say. `found` is what lies at core_path(), empty: nothing. Pure.
std::string describe_core(const CoreRules& rules, const CoreProcess& process,
                          const std::string& found);

/// Of a rank that a signal has ended; empty for others. Reads /proc/sys and looks for the file.
std::string explain_core(const RankExited& end, const LaunchPlan& plan, const RankPlan& rank);

}  // namespace autolaunch::launcher
