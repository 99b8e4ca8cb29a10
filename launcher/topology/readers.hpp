#pragma once
#include "topology/node_topology.hpp"
#include "topology/read_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

// The parts of read_local_topology, in the order they run. Private to this folder.

/// A NUMA node as the kernel shows it, usable or not.
struct SystemNumaNode {
    NumaNode node;           ///< cpus: all of them, allowed or not
    std::vector<int> nodes;  ///< kernel's numbers of the nodes that node.distances counts
};

std::vector<SystemNumaNode> read_system_numa_nodes(const TopologyOptions& options);
/// Those with memory and CPUs that we may use, their cpus cut down to the allowed ones.
std::vector<NumaNode> usable_numa_nodes(const std::vector<SystemNumaNode>& all, const std::vector<int>& allowed_cpus,
                                        const std::vector<int>& allowed_memory_nodes);
/// Distances from the node numbered `from` to `to`, or empty when unknown.
std::vector<int> distances_between(const std::vector<SystemNumaNode>& all, int from, const std::vector<NumaNode>& to);

/// Cores with an allowed CPU. Every L3 and package is asked once, not once a CPU.
std::vector<Core> read_cores(const TopologyOptions& options, const std::vector<int>& allowed_cpus,
                             const std::vector<NumaNode>& numa_nodes);
std::string read_cpu_model(const TopologyOptions& options);

/// Where a PCI device is: the first valid of its own numa_node, a parent bridge's, its local_cpulist if that is a
/// strict subset of the machine, and the machine's only node.
struct Locality {
    std::optional<int> numa_node;
    std::string source;
    std::vector<int> cpus;  ///< all near it, allowed or not
};
Locality read_pci_locality(const std::string& sysfs_root, const std::string& bdf,
                           const std::vector<SystemNumaNode>& nodes);

/// GPUs in PCI order that a driver runs and whose device node is there, without node_distances. Those left out go to
/// `notes`. Where the PCI bus is not shown (some sandboxes), /dev/nvidiaN stands for a GPU of unknown locality.
std::vector<Gpu> read_gpus(const TopologyOptions& options, const std::vector<int>& allowed_cpus,
                           const std::vector<SystemNumaNode>& nodes, std::vector<std::string>& notes);
std::vector<Hca> read_hcas(const TopologyOptions& options, const std::vector<SystemNumaNode>& nodes);

}  // namespace autolaunch::launcher
