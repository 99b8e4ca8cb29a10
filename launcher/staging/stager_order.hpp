#pragma once
#include "hand_over/mover_process.hpp"
#include "plan/launch_plan.hpp"
#include "staging/stager_words.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a plan's stager is to do; its role and its folder for streams are the job's. Pure.
StagerOrder stager_order(const LaunchPlan& plan);

/// The program, with what it needs of this process's environment: where something lies on a server,
/// the variables that say who asks, and how it is reached (docs/s3.md).
MoverProcess::Program stager_program(const LaunchPlan& plan);
/// Those variables, "NAME=value".
std::vector<std::string> environment_for_servers();

}  // namespace autolaunch::launcher
