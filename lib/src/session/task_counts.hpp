#pragma once
#include <string>
#include <string_view>

namespace autolaunch {

/// How many tasks a node has by Slurm's list of counts: "8(x3),4" is 8, 8, 8 and 4. Pure; throws
/// Error{invalid_argument} naming the variable when the list is malformed or has no such node.
int tasks_on_node(const std::string& variable, std::string_view counts, int node_rank);

}  // namespace autolaunch
