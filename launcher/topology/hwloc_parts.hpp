#pragma once
#include "topology/node_topology.hpp"

#include <hwloc.h>

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher::from_hwloc {

// What the two halves of the hwloc reader share. Private to this folder.

/// Members of a bitmap; empty when it is not said, or infinite.
std::vector<int> numbers(hwloc_const_bitmap_t bitmap);
/// A name=value pair of an object, or "".
std::string info(hwloc_obj_t object, const char* name);
/// Latencies from `from` to `to` by the kernel's node numbers; empty when the file has none.
std::vector<int> node_distances(hwloc_topology_t topology, int from,
                                const std::vector<NumaNode>& to);

/// GPUs, HCAs, network interfaces, and the NVLink and xGMI between GPUs, into `result`, whose
/// allowed_cpus and numa_nodes are there. `all`: NUMA nodes with all their CPUs, allowed or not.
void read_devices(hwloc_topology_t topology, const std::vector<NumaNode>& all,
                  NodeTopology& result);

}  // namespace autolaunch::launcher::from_hwloc
