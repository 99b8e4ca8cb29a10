#pragma once
#include "plan/launch_plan.hpp"

#include <string>

namespace autolaunch::launcher {

/// Reads what NCCL's settings depend on besides the machine: nccl.conf files, the profile that the spec names or that
/// fits the machine, and the interface of `local_address`, our end of the control connection (empty: there is none).
/// Does nothing without GPUs. Throws Error for a profile that is missing or wrong.
NcclSite read_nccl_site(const JobSpec& spec, const EnvironmentMap& environment, const NodeTopology& topology,
                        const std::string& local_address = {});

}  // namespace autolaunch::launcher
