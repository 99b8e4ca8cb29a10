#pragma once
#include "allocation/allocation.hpp"
#include "nccl_env/compute_hcas.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What keeps traffic from flowing through the compute ports, or from flowing as the fabric wants
/// it, under `settings`: all that NCCL will see, a profile's and ours too. One sentence each, with
/// what to do: GIDs that lead nowhere and addresses that NCCL does not understand, partition keys
/// of InfiniBand, traffic classes of RoCE. Pure.
std::vector<std::string> check_compute_ports(const ComputeHcas& compute,
                                             const EnvironmentMap& settings);

}  // namespace autolaunch::launcher
