#pragma once
#include "exit_codes/rank_exited.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Why its program, or one that it was to run, was not there or could not be loaded, by what
/// shells, interpreters and loaders say; empty: it ran. Pure.
std::string why_not_started(const RankExited& exit, const std::vector<std::string>& last_lines);

}  // namespace autolaunch::launcher
