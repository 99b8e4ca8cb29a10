#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Names of our children that ranks of this run directory started (by their environment: the agent
/// has helpers of its own), that are not `known`, and that do not end by themselves within 100 ms,
/// which is how long it blocks where there are any.
std::vector<std::string> lasting_children(const std::vector<pid_t>& known,
                                          const std::string& run_dir);

/// What is said of processes that ranks left running when all had exited with 0. Pure.
std::string leftovers_text(const std::vector<std::string>& names);

}  // namespace autolaunch::launcher
