#pragma once
#include "topology/node_topology.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// A machine as it is drawn: boxes within boxes. Private to this folder.

/// Devices below one root port, or one host bridge where no switch joins them.
struct DeviceGroup {
    std::string name;        ///< "0000:16:01.0", "pci0000:16"; empty: unknown
    bool is_switch = false;  ///< several devices hang from one root port
    std::vector<int> gpus;   ///< positions in topology.gpus
    std::vector<int> hcas;   ///< positions in topology.hcas
};

/// Cores that share a last-level cache.
struct CacheBox {
    int l3 = 0;
    std::uint64_t bytes = 0;  ///< 0: unknown
    std::vector<int> cores;   ///< positions in topology.cores
};

struct NumaBox {
    int index = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<int> cpus;
    std::vector<CacheBox> caches;
    std::vector<DeviceGroup> groups;
};

struct PackageBox {
    int package = 0;
    std::vector<NumaBox> nodes;
    std::vector<int> loose_cores = {};  ///< positions of cores on no NUMA node that we may use
    std::vector<int> unusable = {};     ///< positions in topology.unusable_cpus
};

struct MachineLayout {
    std::vector<PackageBox> packages;
    std::vector<DeviceGroup> elsewhere;  ///< near no NUMA node that we may use, or nobody knows
    std::vector<int> unusable;           ///< as PackageBox::unusable, of no package that is told
    int core_count = 0, thread_count = 0;
};

/// Pure. Packages, nodes and devices by number and PCI address; a node of several packages is drawn
/// in its first.
MachineLayout lay_out(const NodeTopology& topology);

}  // namespace autolaunch::launcher
