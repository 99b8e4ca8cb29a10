#pragma once
#include "plan/launch_plan.hpp"
#include "stopping/save_times.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What an earlier run has measured of its saves.
struct RunTimes {
    std::string name;  ///< of its directory
    SaveTimes times;
};

/// Of the runs beside the plan's, those that have measured something, newest first, at most 32.
/// Blocks: on the file system.
std::vector<RunTimes> runs_before(const LaunchPlan& plan);

/// A section of `autolaunch plan`: how long training will stand still for a save, and how long the
/// copy to each further place will take, by what the newest run measured there. Without a
/// measurement it says so, and never guesses. Empty where the spec says nothing of checkpoints.
/// Pure.
std::string checkpoint_times(const LaunchPlan& plan, const std::vector<RunTimes>& runs);

}  // namespace autolaunch::launcher
