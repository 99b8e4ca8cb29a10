#pragma once
#include "allocation/slurm_conf.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Nodes of one NodeName line. DEFAULT lines are folded into those that follow.
struct NodeDescription {
    int line = 0;
    std::vector<std::string> names;
    std::optional<long long> cpus, cores;  ///< cores: of the whole node
    long long memory_mib = 1;              ///< RealMemory; 1 is Slurm's default
    bool memory_given = false;
    long long gpus = 0;
};

std::vector<NodeDescription> node_descriptions(const ConfFile& conf);
/// The nodes that jobs of `partition` (empty: any) may get.
std::vector<NodeDescription> nodes_of_partition(const ConfFile& conf, const std::string& partition);
/// Like expand_hostlist(), but a list that is malformed is empty.
std::vector<std::string> expand_or_nothing(const std::string& list);

}  // namespace autolaunch::launcher
