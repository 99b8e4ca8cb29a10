#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// One line of slurm.conf or gres.conf: KEY=VALUE pairs, continued lines joined, comments gone.
struct ConfLine {
    int line = 0;
    std::vector<std::pair<std::string, std::string>> fields;  ///< names as written

    /// Names are compared as Slurm does, without regard to case; empty when it is not there.
    std::string value(std::string_view name) const;
    bool has(std::string_view name) const;
};

struct ConfFile {
    std::vector<ConfLine> lines;
    const ConfLine* first_with(std::string_view name) const;
};

/// Any text at all; what is no KEY=VALUE is passed over. Linear.
ConfFile parse_slurm_conf(std::string_view text);
bool equals_ignoring_case(std::string_view a, std::string_view b);

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
