#pragma once
#include "plan/launch_plan.hpp"
#include "rendezvous/join.hpp"
#include "report/event.hpp"

namespace autolaunch::launcher {

/// What job this is, and on which nodes. Pure.
JobStarted announce_job(const LaunchPlan& plan, const Joined& joined);

}  // namespace autolaunch::launcher
