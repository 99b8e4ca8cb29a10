#pragma once
#include "plan/launch_plan.hpp"

namespace autolaunch::launcher {

/// Decides what the ranks' interpreter imports beforehand: plan.preload. Reads the program's files.
/// With a list, throws Error{invalid_argument} where the program cannot be one that modules are
/// preloaded into; with `auto` the plan says why nothing is.
void plan_preload(LaunchPlan& plan, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
