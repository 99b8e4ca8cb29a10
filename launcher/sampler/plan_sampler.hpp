#pragma once
#include "plan/launch_plan.hpp"
#include "sampler/node_sampler.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// How this node is to be measured, by the plan. `node_name`: as the scheduler calls it;
/// `own_address`: this node's towards the others;
/// empty: there are none. Pure.
SamplerSettings sampler_settings(const LaunchPlan& plan, const std::string& node_name,
                                 const std::string& own_address);

/// The GPUs that ranks of the plan have here, those that the scheduler gave the job besides, and of
/// each rank its own. Pure.
std::vector<WatchedGpu> watched_gpus(const LaunchPlan& plan);
std::map<int, std::string> gpu_of_rank(const LaunchPlan& plan);

}  // namespace autolaunch::launcher
