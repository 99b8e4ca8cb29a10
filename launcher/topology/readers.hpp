#pragma once
#include "topology/node_topology.hpp"
#include "topology/read_topology.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// The parts of read_local_topology, in the order they run. Private to this folder.

/// A NUMA node as the kernel shows it, usable or not.
struct SystemNumaNode {
    NumaNode node;           ///< cpus: all of them, allowed or not
    std::vector<int> nodes;  ///< kernel's numbers of the nodes that node.distances counts
};

/// All but those that are a GPU's memory (/proc/driver/nvidia/gpus/*/numa_status).
std::vector<SystemNumaNode> read_system_numa_nodes(const TopologyOptions& options);
/// Those with memory and CPUs that we may use, their cpus cut down to the allowed ones.
std::vector<NumaNode> usable_numa_nodes(const std::vector<SystemNumaNode>& all,
                                        const std::vector<int>& allowed_cpus,
                                        const std::vector<int>& allowed_memory_nodes);
/// Hardware threads of the core of `cpu`, itself alone where nothing is told.
std::vector<int> read_siblings(const TopologyOptions& options, int cpu);
/// CPUs of the socket of `cpu`; nothing: not told.
std::optional<std::vector<int>> read_package(const TopologyOptions& options, int cpu);
/// Distances from the node numbered `from` to `to`, or empty when unknown.
std::vector<int> distances_between(const std::vector<SystemNumaNode>& all, int from,
                                   const std::vector<NumaNode>& to);

/// Fills `cores` with those that have an allowed CPU, and `l3_bytes`. Every L3 and package is asked
/// once, not once a CPU. A core of a node that is not usable (no memory) goes to the usable node at
/// the smallest distance.
void read_cores(const TopologyOptions& options, const std::vector<SystemNumaNode>& system_nodes,
                NodeTopology& topology);
/// topology.unusable_cpus and other_numa_nodes: for people, so only with options.details. Cores are
/// there, whose packages it numbers anew, together with those that have no CPU of ours.
void read_unusable(const TopologyOptions& options, const std::vector<SystemNumaNode>& system_nodes,
                   NodeTopology& topology);
/// As NodeTopology::cpu_quota: the least of the cgroup's levels, version 2 or 1, of this process.
std::optional<double> read_cpu_quota(const TopologyOptions& options);
/// As NodeTopology::memory_limit_bytes: the least of the cgroup's levels, version 2 or 1, of this
/// process.
std::optional<std::uint64_t> read_memory_limit(const TopologyOptions& options);
std::string read_cpu_model(const TopologyOptions& options);

/// Where a PCI device is: the first valid of its own numa_node, a parent bridge's, its
/// local_cpulist if that is a strict subset of the machine, and the machine's only node.
struct Locality {
    std::optional<int> numa_node;
    std::string source;
    std::vector<int> cpus;  ///< all near it, allowed or not
};
Locality read_pci_locality(const std::string& sysfs_root, const std::string& bdf,
                           const std::vector<SystemNumaNode>& nodes);

/// Whether a device node may be opened for reading and writing, without opening it. The kernel asks
/// the file's permissions and the device cgroup (fs/namei.c, inode_permission).
bool may_open(const TopologyOptions& options, const std::string& device_node);

/// "0000:17:00.0", in lower case.
bool is_bdf(std::string_view name);
/// The last PCI address among a path's parts; empty: none.
std::string bdf_in_path(const std::string& path);
std::vector<std::string> read_pci_path(const std::string& sysfs_root,
                                       const std::string& bdf);  ///< as Gpu::pci_path
std::string read_pci_id(const std::string& sysfs_root, const std::string& bdf);  ///< as Hca::pci_id

/// A GPU, or a part of one, as the amdgpu driver shows it to ROCm.
struct KfdNode {
    int number = 0;         ///< of the KFD node
    int runtime_index = 0;  ///< ROCm's number of it
    std::string bdf;
    std::string uuid;  ///< "GPU-0123456789abcdef"; empty: not told
    std::uint64_t memory_bytes = 0;
};
bool has_kfd(const TopologyOptions& options);
std::vector<KfdNode> read_kfd_gpus(const TopologyOptions& options);
std::vector<ToldPath> read_kfd_links(const TopologyOptions& options);

/// GPUs in PCI order that a driver runs and whose device node is there, without node_distances.
/// Those left out go to `notes`; those that we may not open are there. Where the PCI bus is not
/// shown (some sandboxes), /dev/nvidiaN stands for a GPU of unknown locality.
std::vector<Gpu> read_gpus(const TopologyOptions& options, const std::vector<int>& allowed_cpus,
                           const std::vector<SystemNumaNode>& nodes,
                           std::vector<std::string>& notes);
/// Puts MIG devices in the place of the GPUs that are cut up, and adds memory sizes and NVLinks
/// where they are asked for. Loads NVML only for these.
void ask_nvidia_driver(const TopologyOptions& options, NodeTopology& topology);
/// Whether NVIDIA's module for GPUDirect RDMA is loaded, in any of its three forms, as NCCL asks.
std::optional<bool> read_peermem(const std::string& sysfs_root);
std::vector<Hca> read_hcas(const TopologyOptions& options,
                           const std::vector<SystemNumaNode>& nodes);
/// HPE Slingshot's NICs, where their driver is loaded, each with one port.
std::vector<Hca> read_slingshot(const TopologyOptions& options,
                                const std::vector<SystemNumaNode>& nodes,
                                const std::vector<NetworkInterface>& interfaces);
std::vector<NetworkInterface> read_network_interfaces(const TopologyOptions& options);

}  // namespace autolaunch::launcher
