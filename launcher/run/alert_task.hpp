#pragma once
#include "alerts/alert_process.hpp"
#include "allocation/allocation.hpp"
#include "plan/launch_plan.hpp"

namespace autolaunch::launcher {

/// What the process of this job's alerts needs to know. Blocks: as the users' database does.
alerts::AlertTask alert_task(const LaunchPlan& plan, const Allocation& allocation,
                             const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
