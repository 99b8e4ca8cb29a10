#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Of HCAs that all look as if they were for computing: a sentence that names those which may serve
/// storage or management and asks, where nothing tells. Empty: they are alike, one a GPU or
/// several. Pure.
std::string ask_about_odd_hcas(const NodeTopology& topology, const std::vector<const Hca*>& hcas);

}  // namespace autolaunch::launcher
