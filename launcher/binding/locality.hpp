#pragma once
#include "topology/node_topology.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// The first half of binding: which CPUs are near each rank, before a mode cuts them down. Private
// to this folder.

struct RankLocality {
    std::optional<int> gpu;  ///< as RankBinding::gpu
    std::optional<int>
        gpu_position;   ///< in topology.gpus, also for a rank that is only near that GPU: PCI order
    bool known = true;  ///< false: a GPU of unknown locality on a machine with several NUMA nodes
    std::vector<int> cpus;  ///< allowed CPUs near it; never empty when known
    std::string where;      ///< "GPU 0 is on NUMA node 1 (sysfs numa_node)"
};

struct Localities {
    std::vector<RankLocality> ranks;
    std::vector<std::string> warnings;
    std::vector<std::string> notes;
};

/// With GPUs: near the rank's GPU; ranks beyond the GPUs get none of their own and are apportioned
/// to the places of GPUs by how many are there. Without: dealt over `domains` (sorted lists of
/// allowed CPUs: NUMA nodes or sockets) by their cores.
Localities find_localities(const NodeTopology& topology, const std::vector<int>& gpus,
                           int rank_count, const std::vector<std::vector<int>>& domains,
                           const std::string& domain_name);

}  // namespace autolaunch::launcher
