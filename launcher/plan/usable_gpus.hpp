#pragma once
#include "allocation/allocation.hpp"
#include "spec/job_spec.hpp"
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

struct UsableGpus {
    std::vector<int> positions;  ///< in topology.gpus, in the order the ranks will see them
    std::string mask;            ///< for mask_variable; empty: no mask is needed
    std::string mask_variable = "CUDA_VISIBLE_DEVICES";  ///< or ROCR_VISIBLE_DEVICES
    /// Each rank is shown its own GPU alone, by UUID: a process can use only one MIG device.
    bool mask_each = false;
    std::vector<std::string> warnings;
    std::vector<std::string> notes;  ///< what was left out as it should be
};

/// The machine's GPUs of one vendor, cut down to what was granted and to resources.gpus_per_node. A
/// grant names GPUs by the runtime's number (PCI order; ROCm's own order on AMD), by UUID, also its
/// beginning, or by MIG UUID; in the order that it names them. GPUs that may not be opened are left
/// out, and CUDA does not count them. Naming a GPU that is cut up grants its parts. Where the
/// scheduler granted some of the GPUs but nothing hides the others from the ranks, `mask` will.
/// Pure. Throws Error{invalid_argument} when the spec asks for more than there are.
UsableGpus choose_usable_gpus(const NodeTopology& topology, const Allocation& allocation,
                              const ResourceSpec& resources);

}  // namespace autolaunch::launcher
