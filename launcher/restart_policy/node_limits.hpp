#pragma once
#include "spec/job_spec.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// With how few nodes the job goes on after it has lost some: the MIN of --nnodes MIN:MAX. Nothing:
/// every node is needed. So it is where the spec counts ranks in all (-np, several programs): they
/// would not be those that were asked for. Pure.
std::optional<int> fewest_nodes(const JobSpec& spec);
/// For `autolaunch plan`, one line; empty: every node is needed, as ever. Pure.
std::string describe_node_limits(const JobSpec& spec, int nodes);

}  // namespace autolaunch::launcher
