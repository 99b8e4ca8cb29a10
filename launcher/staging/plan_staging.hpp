#pragma once
#include "plan/launch_plan.hpp"

#include <chrono>

namespace autolaunch::launcher {

/// Where data is staged where nobody says it.
inline constexpr char kDefaultScratch[] = "/var/tmp";
/// Of the administrator's file: where data for all users is, and whose it is (root's, if nothing
/// is said).
inline constexpr char kSharedCacheKey[] = "storage_management.shared_cache";
inline constexpr char kSharedOwnerKey[] = "storage_management.shared_cache_owner";

/// Decides where data is staged: plan.staging. Looks at nothing.
void plan_staging(LaunchPlan& plan);

/// For `plan`: what there is of each source, and whether this node has it already. What cannot be
/// seen in that time is said. Blocks: that long at most.
void look_at_staging(LaunchPlan& plan, std::chrono::milliseconds patience);

}  // namespace autolaunch::launcher
