#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// One machine as placement sees it. CPU and NUMA numbers are the kernel's; lists are sorted.

struct Core {
    std::vector<int> cpus;  ///< its hardware threads that we may use, first thread first
    int package = 0;        ///< ordinal of its socket
    int numa_node = 0;
    int l3 = 0;  ///< ordinal of the last-level cache it shares
};

struct NumaNode {
    int index = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<int> cpus;       ///< allowed ones
    std::vector<int> distances;  ///< to topology.numa_nodes, in their order; empty when the firmware gives none
};

struct Gpu {
    std::string bdf;   ///< PCI address, lower case: "0000:17:00.0"
    std::string uuid;  ///< empty when no driver told it
    std::string model;
    std::string vendor;            ///< "nvidia", "amd"
    int index = 0;                 ///< in PCI order among the node's GPUs
    std::optional<int> numa_node;  ///< nothing: unknown
    std::string numa_source;       ///< which source said so: "sysfs numa_node", …
    std::vector<int> local_cpus;   ///< allowed CPUs near it; empty: none of those near it is allowed
    /// From its NUMA node to topology.numa_nodes, in their order; empty when unknown. Its own node need not be among
    /// them: a cpuset may leave out all CPUs near the GPU.
    std::vector<int> node_distances;
};

struct Hca {
    std::string name;  ///< "mlx5_0"
    std::string bdf;
    std::optional<int> numa_node;
    struct Port {
        int number = 1;
        bool active = false;
        std::string link_layer;  ///< "InfiniBand" or "Ethernet"
        double rate_gbps = 0;
    };
    std::vector<Port> ports;
};

struct NodeTopology {
    std::string hostname;
    std::string cpu_model;
    std::vector<Core> cores;           ///< with at least one allowed CPU, by first CPU
    std::vector<NumaNode> numa_nodes;  ///< with CPUs and memory that we may use
    std::vector<Gpu> gpus;             ///< in PCI order, all that the machine shows
    std::vector<Hca> hcas;
    std::vector<int> allowed_cpus;                ///< affinity mask ∩ cpuset
    std::vector<std::string> network_interfaces;  ///< names in our network namespace, sorted
    int package_count = 1;
    std::vector<std::string> notes;  ///< what was seen and left out, one sentence each
};

}  // namespace autolaunch::launcher
