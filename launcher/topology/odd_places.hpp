#pragma once
#include "topology/node_topology.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// NUMA nodes that no rank is placed on, and devices that are there. Pure. Private to this folder.

inline constexpr const char* kMemoryAlone = "no CPUs: memory alone";

/// `node`: its cpus cut down to the allowed ones, of `cpu_count`. Empty: ranks may be placed on it.
std::string why_no_rank_is_on(const NumaNode& node, std::size_t cpu_count, bool may_have_memory);

/// A note for the GPUs and HCAs whose NUMA node is none of topology.numa_nodes: which is the
/// nearest. `distances`: from the node of that number to topology.numa_nodes; empty: unknown.
void note_odd_places(NodeTopology& topology, const std::function<std::vector<int>(int)>& distances);

}  // namespace autolaunch::launcher
