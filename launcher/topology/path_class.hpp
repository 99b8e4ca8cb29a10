#pragma once
#include "topology/node_topology.hpp"

#include <string_view>

namespace autolaunch::launcher {

/// Told paths first; else by the lowest common ancestor on the PCI bus (one switch, several, host
/// bridge), else by NUMA nodes. Grace machines have a host bridge a device: there the NUMA node
/// decides. Pure.
PathClass path_between(const NodeTopology& topology, const Gpu& gpu, const Hca& hca);
PathClass path_between(const NodeTopology& topology, const Gpu& a, const Gpu& b);

/// "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "?".
std::string_view path_class_name(PathClass path);

}  // namespace autolaunch::launcher
