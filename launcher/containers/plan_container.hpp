#pragma once
#include "allocation/allocation.hpp"
#include "plan/launch_plan.hpp"

namespace autolaunch::launcher {

/// Decides what the ranks of this node run in, where the spec has an image, after all else is
/// planned. Throws Error where it cannot be. Looks at the disk.
void plan_container(LaunchPlan& plan, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
