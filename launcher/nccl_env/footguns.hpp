#pragma once
#include "allocation/allocation.hpp"
#include "nccl_env/compute_hcas.hpp"
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One sentence for each of `settings` that is known to hurt on this machine, with what to do about
/// it, and one for a machine on which NCCL's defaults hurt. `settings` are all that NCCL will see
/// of the user's: the environment's and nccl.conf's. Pure.
std::vector<std::string> find_nccl_footguns(const NodeTopology& topology,
                                            const ComputeHcas& compute,
                                            const EnvironmentMap& settings);

}  // namespace autolaunch::launcher
