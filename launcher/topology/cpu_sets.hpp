#pragma once
#include "topology/node_topology.hpp"

#include <vector>

namespace autolaunch::launcher {

// Sets of CPUs and of NUMA nodes, and of a machine's cores by them. Pure, and at the bottom:
// readers and binding both compute with these.

/// The kernel's numbers, sorted and each once. Functions here take and give such lists.
using CpuList = std::vector<int>;

CpuList intersect(const CpuList& a, const CpuList& b);
CpuList unite(const CpuList& a, const CpuList& b);
/// What is in `a` alone.
CpuList without(const CpuList& a, const CpuList& b);
bool is_subset(const CpuList& part, const CpuList& whole);

/// All their CPUs; no two cores have one in common.
CpuList cpus_of(const std::vector<Core>& cores);
/// Cores with all or part of their CPUs in `cpus`, each with that part alone.
std::vector<Core> cores_within(const NodeTopology& topology, const CpuList& cpus);
std::vector<Core> cores_by_first_cpu(const NodeTopology& topology);
/// By the kernel's numbers.
std::vector<NumaNode> nodes_by_index(const NodeTopology& topology);

}  // namespace autolaunch::launcher
