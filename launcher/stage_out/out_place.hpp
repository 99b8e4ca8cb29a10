#pragma once
#include "plan/launch_plan.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Decides where ranks' results are kept and go: plan.staging.out, behind plan_staging(). Throws
/// ExitError 65 where a target is in the scratch folder itself, or no bucket. Looks at nothing.
void plan_stage_out(LaunchPlan& plan);

/// Of a bucket, why nothing could be written to it from here; empty: somebody may ask for it.
/// Blocks: for the second that an instance's metadata have.
std::string why_no_credentials(const std::string& to);

/// For `plan`: whether files could go to each target. What cannot be seen in that time is said.
/// Blocks: that long at most.
void look_at_targets(LaunchPlan& plan, std::chrono::milliseconds patience);

/// What the copier needs of this process's environment: where something goes to a bucket, the
/// variables that say who asks.
std::vector<std::string> out_environment(const LaunchPlan& plan);

/// "12.4 GB in 3 files". Pure.
std::string amount_of_out(std::int64_t files, std::int64_t bytes);

/// Where `autolaunch stage-out` looks without --scratch and without an administrator's word.
const char* default_out_scratch();

}  // namespace autolaunch::launcher
