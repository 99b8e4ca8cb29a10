#pragma once
#include "plan/launch_plan.hpp"

#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Private to this folder.

/// What Slurm, mpirun and others told the agent of its own process, made true of the rank: as srun
/// with a task a rank would have told it. Nothing where none of them is there.
/// docs/rank-environment.md has the table. Pure.
std::vector<VariableChoice> task_variables(const LaunchPlan& plan, const RankPlan& rank,
                                           const EnvironmentMap& inherited);

/// Says who the agent's process is to a server that knows no other, or how srun laid out its own
/// tasks: no rank inherits it, but where each has a task of its own it keeps the server.
/// `inherited` is all of the environment it is in. Pure.
bool is_of_agent_alone(std::string_view name, const LaunchPlan& plan,
                       const EnvironmentMap& inherited);

}  // namespace autolaunch::launcher
