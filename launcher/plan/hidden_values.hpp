#pragma once
#include "plan/launch_plan.hpp"

namespace autolaunch::launcher {

/// The plan as it may be shown: arguments and variables whose names say that they are secret, and
/// what else holds a secret's value, as ***. Nothing can be started by it.
LaunchPlan without_secrets(LaunchPlan plan);

}  // namespace autolaunch::launcher
