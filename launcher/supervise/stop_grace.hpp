#pragma once
#include "plan/launch_plan.hpp"

#include <chrono>
#include <string>

namespace autolaunch::launcher {

/// How long ranks have after a stop for `reason`, as in StopRanks: `restart.grace_period`, and
/// after SIGTERM no more than Slurm leaves them before its own SIGKILL, which would end autolaunch,
/// too, before its last word. Pure.
std::chrono::milliseconds grace_after(const LaunchPlan& plan, const std::string& reason);

}  // namespace autolaunch::launcher
