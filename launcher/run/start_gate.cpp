#include "run/start_gate.hpp"

#include "base/hostname.hpp"
#include "plan/usable_gpus.hpp"
#include "run/join_inputs.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

int granted_gpus(const Allocation& allocation) {
    std::size_t gpus = 0;
    for (const GpuGrant* grant : {&allocation.gpus, &allocation.rocm_gpus})
        gpus = std::max(gpus, grant->names ? grant->names->size() : 0);
    return static_cast<int>(gpus);
}

int granted_gpus(const JobSpec& spec, const EnvironmentMap& environment) {
    return granted_gpus(read_allocation(environment, hostname(), node_options(spec)));
}

int gpus_of_node(const JobSpec& spec, const Allocation& allocation, const NodeTopology& topology) {
    const UsableGpus used = choose_usable_gpus(topology, allocation, spec.resources);
    return std::max(granted_gpus(allocation), static_cast<int>(used.positions.size()));
}

}  // namespace autolaunch::launcher
