#pragma once
#include "plan/launch_plan.hpp"

#include <chrono>
#include <string>

namespace autolaunch::launcher {

/// That ranks have less after SIGTERM than what the spec gives: whoever runs the job sends SIGKILL
/// before, which would end autolaunch, too, before its last word. Pure.
std::string shortened_notice(const LaunchPlan& plan, std::chrono::milliseconds grace);

}  // namespace autolaunch::launcher
