#pragma once
#include "topology/node_topology.hpp"

#include <string>

namespace autolaunch::launcher {

/// All that is known of the machine, for programs (docs/topology-json.md). Ends with a newline.
/// Pure.
std::string topology_json(const NodeTopology& topology);

}  // namespace autolaunch::launcher
