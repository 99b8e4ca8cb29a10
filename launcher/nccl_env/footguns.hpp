#pragma once
#include "allocation/allocation.hpp"
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One sentence for each setting in `found` that is known to hurt on this machine. Pure.
std::vector<std::string> find_nccl_footguns(const NodeTopology& topology, const EnvironmentMap& found);

}  // namespace autolaunch::launcher
