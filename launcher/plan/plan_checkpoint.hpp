#pragma once
#include "plan/launch_plan.hpp"
#include "session/checkpoint_settings.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the library is told of the spec's section `checkpoint`. `workdir`: of the ranks, where
/// relative paths are. Pure.
CheckpointSettings checkpoint_settings(const CheckpointSpec& checkpoint,
                                       const std::string& workdir);

/// Keys of it that nobody heeds where the program is one of Python's, whose checkpoints the library
/// does not write; "" where there are none. Pure.
std::string keys_without_library(const JobSpec& spec);

/// The same for people, in three columns; none where nothing is set. Pure.
std::vector<std::vector<std::string>> checkpoint_rows(const LaunchPlan& plan);

}  // namespace autolaunch::launcher
