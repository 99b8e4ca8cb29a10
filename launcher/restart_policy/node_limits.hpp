#pragma once
#include "spec/job_spec.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// With how few nodes the job goes on after it has lost some: the MIN of --nnodes MIN:MAX, and
/// where there are spares as many as were asked for. Nothing: every node is needed. So it is where
/// the spec counts ranks in all (-np, several programs): they would not be those that were asked
/// for. Pure.
std::optional<int> fewest_nodes(const JobSpec& spec);
/// How many of the nodes that have joined the first generation is of; the others are spares. Pure.
int nodes_at_start(const JobSpec& spec, int joined);
/// For `autolaunch plan`, one line; empty: every node is needed, as ever. `nodes` take part, so
/// many `spares` wait. Pure.
std::string describe_node_limits(const JobSpec& spec, int nodes, int spares);
/// Why restart.straggler: replace can replace no node of this job; empty: it can, or was not asked
/// for. Pure.
std::string why_no_replacement(const JobSpec& spec);
/// Whether ranks may have to be started anew, for which restart.warm_processes keeps others. Pure.
bool may_start_anew(const JobSpec& spec);
/// For `autolaunch plan`, one line: "a rank for which the others wait: …". Pure.
std::string describe_straggler_policy(const JobSpec& spec);

}  // namespace autolaunch::launcher
