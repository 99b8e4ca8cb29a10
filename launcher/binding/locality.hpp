#pragma once
#include "binding/binding.hpp"

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

/// Cores with all or part of their CPUs in `cpus`.
std::vector<Core> cores_within(const NodeTopology& topology, const std::vector<int>& cpus);
std::vector<Core> cores_by_first_cpu(const NodeTopology& topology);
/// By the kernel's numbers.
std::vector<NumaNode> nodes_by_index(const NodeTopology& topology);

std::vector<int> sorted_intersection(const std::vector<int>& a, const std::vector<int>& b);
/// What is in `a` alone.
std::vector<int> without(const std::vector<int>& a, const std::vector<int>& b);

}  // namespace autolaunch::launcher
