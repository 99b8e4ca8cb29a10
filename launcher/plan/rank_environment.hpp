#pragma once
#include "plan/launch_plan.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Private to this folder.

/// What is set for the rank on top of the inherited environment, in order of display; the facts of
/// a generation come later. The user's own settings are left out of what we would set, or come last
/// and win. Pure.
std::vector<VariableChoice> planned_environment(const LaunchPlan& plan, const RankPlan& rank,
                                                const EnvironmentMap& inherited);

/// Whether the launcher sets it for every rank. Pure.
bool is_of_the_contract(std::string_view name);

/// A warning for each variable of the rank environment that the user's own settings replace. Pure.
std::vector<std::string> overridden_contract(const std::map<std::string, std::string>& trainer_env);

}  // namespace autolaunch::launcher
