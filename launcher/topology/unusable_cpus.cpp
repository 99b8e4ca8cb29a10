// What is there and no rank gets: so that a socket without a CPU of ours is not missing from the
// picture.

#include "topology/cpu_sets.hpp"
#include "topology/odd_places.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace autolaunch::launcher {
namespace {

std::vector<int> list_or_nothing(const TopologyOptions& options, const char* name) {
    return read_list(fmt::format("{}/devices/system/cpu/{}", options.sysfs_root, name))
        .value_or(std::vector<int>{});
}

// An offline CPU has no topology/ any more; its link from the NUMA node stays.
std::optional<int> node_of(const TopologyOptions& options,
                           const std::vector<SystemNumaNode>& system_nodes, int cpu) {
    for (const SystemNumaNode& entry : system_nodes)
        if (exists(fmt::format("{}/devices/system/node/node{}/cpu{}", options.sysfs_root,
                               entry.node.index, cpu)))
            return entry.node.index;
    return std::nullopt;
}

/// Numbers sockets by their lowest CPU, whoever may use it.
class Packages {
public:
    Packages(const TopologyOptions& options, const std::vector<int>& online) {
        for (const int cpu : online) {
            if (first_of_.contains(cpu))
                continue;
            const auto members = read_package(options, cpu);
            if (!members || members->empty())
                continue;
            for (const int member : *members)
                first_of_.emplace(member, members->front());
            first_of_.emplace(cpu, members->front());
            ordinals_.emplace(members->front(), 0);
        }
        int next = 0;
        for (auto& [first, ordinal] : ordinals_)
            ordinal = next++;
    }
    std::optional<int> find(int cpu) const {
        const auto first = first_of_.find(cpu);
        return first == first_of_.end() ? std::nullopt : std::optional(ordinals_.at(first->second));
    }

private:
    std::map<int, int> first_of_, ordinals_;
};

}  // namespace

void read_unusable(const TopologyOptions& options, const std::vector<SystemNumaNode>& system_nodes,
                   NodeTopology& topology) {
    const std::vector<int> online = list_or_nothing(options, "online");
    const std::vector<int> offline = without(list_or_nothing(options, "present"), online);
    const Packages packages(options, unite(online, topology.allowed_cpus));
    for (Core& core : topology.cores)
        core.package = packages.find(core.cpus.front()).value_or(core.package);

    std::map<std::tuple<std::optional<int>, bool, std::optional<int>>, UnusableCpus> groups;
    const auto add = [&](int cpu, UnusableCpus::Why why, std::optional<int> package,
                         std::optional<int> node) -> UnusableCpus& {
        UnusableCpus& group = groups[{package, why == UnusableCpus::Why::offline, node}];
        group.why = why;
        group.package = package;
        group.numa_node = node;
        group.cpus.push_back(cpu);
        return group;
    };
    for (const int cpu : without(online, topology.allowed_cpus)) {
        UnusableCpus& group = add(cpu, UnusableCpus::Why::not_allowed, packages.find(cpu), {});
        const auto siblings = read_siblings(options, cpu);
        const bool is_first = siblings.front() == cpu;
        group.cores += is_first && intersect(siblings, topology.allowed_cpus).empty() ? 1 : 0;
    }
    for (const int cpu : offline)
        add(cpu, UnusableCpus::Why::offline, {}, node_of(options, system_nodes, cpu));
    for (auto& [key, group] : groups)
        topology.unusable_cpus.push_back(std::move(group));

    for (const SystemNumaNode& entry : system_nodes) {
        NumaNode node = entry.node;
        node.cpus = intersect(node.cpus, topology.allowed_cpus);
        const bool is_usable =
            std::any_of(topology.numa_nodes.begin(), topology.numa_nodes.end(),
                        [&](const NumaNode& usable) { return usable.index == node.index; });
        if (is_usable)
            continue;
        const std::string why = why_no_rank_is_on(node, entry.node.cpus.size(), false);
        topology.other_numa_nodes.push_back({node.index, node.memory_bytes, node.cpus, why});
    }
}

}  // namespace autolaunch::launcher
