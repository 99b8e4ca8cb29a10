#pragma once
#include "readings/node_reading.hpp"

#include <filesystem>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Reads of procfs and sysfs what never makes its reader wait: all of a NodeReading but GPUs and
/// file systems.
///
/// Owner: the sampler. Threads: one. Blocks: some milliseconds, most of it for the processes.
class NodeReader {
public:
    struct Options {
        std::filesystem::path proc = "/proc", sys = "/sys";
        std::filesystem::path cgroups = "/sys/fs/cgroup";
    };
    explicit NodeReader(Options options);
    NodeReader() : NodeReader(Options{}) {}

    /// `ranks`: their numbers and processes.
    NodeReading read(const std::vector<std::pair<int, int>>& ranks) const;

private:
    void read_pressure(NodeReading& into) const;
    void read_cgroup(NodeReading& into) const;
    void read_ranks(const std::vector<std::pair<int, int>>& ranks, NodeReading& into) const;
    void read_infiniband(NodeReading& into) const;
    std::vector<std::string> whole_disks() const;

    Options options_;
    std::filesystem::path cgroup_, cpu_cgroup_, memory_cgroup_;  ///< v2's; v1's by controller
};

/// Since the node was started, and while it slept; since 1970.
std::int64_t boot_ms();
std::int64_t clock_ms();

}  // namespace autolaunch::launcher
