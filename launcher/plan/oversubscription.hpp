#pragma once
#include "plan/launch_plan.hpp"

#include <string>

namespace autolaunch::launcher {

/// "4 ranks on 2 CPUs" where some ranks of this node have fewer CPUs than they are: one that spins
/// while it waits keeps another from computing. Empty: they have enough. Pure.
std::string describe_oversubscription(const LaunchPlan& plan);

}  // namespace autolaunch::launcher
