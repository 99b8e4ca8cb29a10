#pragma once
#include "topology/node_topology.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where to read, and as whom. Tests point the roots at a tree of their own.
struct TopologyOptions {
    std::string sysfs_root = "/sys";
    std::string proc_root = "/proc";
    std::string dev_root = "/dev";
    std::optional<std::vector<int>> allowed_cpus =
        {};                  ///< nothing: sched_getaffinity(2), which honours the cpuset
    bool cpu_model = false;  ///< read the CPU's name: /proc/cpuinfo can take milliseconds
    bool details =
        false;  ///< whole GID tables, ports that are down, speeds of virtual interfaces, xGMI links
    bool driver_facts =
        false;  ///< ask NVIDIA's driver for memory sizes and NVLinks: tens of milliseconds and more
    std::string nvml_library =
        {};  ///< for tests; empty: NVML's own, and only under this machine's roots
    /// Whether a device node may be opened; empty: faccessat(2). For saved trees and tests, whose
    /// files are no devices.
    std::function<bool(const std::string&)> may_open = {};
};

/// This machine, from sysfs and procfs: docs/topology.md says which fact comes from where. Takes
/// well under a millisecond on a small machine and starts no thread and no process, and no driver
/// unless GPUs are cut up with MIG or driver_facts asks for it. Files that are missing or malformed
/// leave their fact unknown; at the least there is one NUMA node with one core for each allowed
/// CPU. Throws SystemError only if the affinity mask cannot be read.
NodeTopology read_local_topology(const TopologyOptions& options = {});

/// CPUs that the calling thread may run on: its affinity mask, which the kernel keeps inside the
/// cpuset.
std::vector<int> read_affinity();

}  // namespace autolaunch::launcher
