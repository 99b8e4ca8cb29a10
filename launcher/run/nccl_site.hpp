#pragma once
#include "plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Reads what NCCL's settings depend on besides the machine: nccl.conf files, the profile that the
/// spec names or that fits the machine, and the interface of `local_address`, our end of the
/// control connection (empty: there is none). Does nothing without GPUs. Throws Error for a profile
/// that is missing or wrong.
NcclSite read_nccl_site(const JobSpec& spec, const EnvironmentMap& environment,
                        const NodeTopology& topology, const std::string& local_address = {});

struct SavedSite {
    NcclSite site;
    std::vector<std::string> notes;  ///< what the saved machine does not tell
};

/// The same for a machine whose topology was saved in `file`. What the capture tells of it counts:
/// what the firmware calls it, and of a folder etc/nccl.conf and the files that a profile names.
/// The user's own nccl.conf is the one here, and so is /etc/nccl.conf where the capture has none.
SavedSite read_saved_nccl_site(const JobSpec& spec, const EnvironmentMap& environment,
                               const NodeTopology& topology, const std::string& file);

}  // namespace autolaunch::launcher
