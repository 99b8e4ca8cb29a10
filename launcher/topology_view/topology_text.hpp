#pragma once
#include "topology/node_topology.hpp"

#include <string>

namespace autolaunch::launcher {

/// The machine for a terminal, without escape sequences: packages, NUMA nodes, their CPUs and
/// caches, GPUs and HCAs by PCI switch or host bridge, then the matrix of path classes with a
/// legend. Pure.
std::string topology_text(const NodeTopology& topology);

}  // namespace autolaunch::launcher
