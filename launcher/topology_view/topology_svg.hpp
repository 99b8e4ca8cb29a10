#pragma once
#include "topology/node_topology.hpp"

#include <string>

namespace autolaunch::launcher {

/// The machine as a picture for a browser or a ticket: packages, NUMA nodes, cores by cache,
/// devices by PCI switch, and the matrix of path classes in colours. One SVG document without
/// scripts, fonts or links. Pure.
std::string topology_svg(const NodeTopology& topology);

}  // namespace autolaunch::launcher
