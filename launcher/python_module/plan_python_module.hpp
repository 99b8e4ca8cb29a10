#pragma once
#include "plan/launch_plan.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// PYTHONPATH with `folder` behind what the user has in it; nothing where that cannot be written.
/// An empty entry of theirs, which is the working directory, stays, and none is made. Pure.
std::optional<std::string> python_path(const std::string& users, const std::string& folder);

/// Where the package is; empty: nowhere. Reads the disk.
std::string python_module_folder();

/// Gives each rank the variable. PYTHONPATH comes before what is installed: a package of the user's
/// that has our name is found by ours, which steps aside. Reads the disk.
void plan_python_module(LaunchPlan& plan, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
