#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace autolaunch::launcher {
namespace {

// Remembers, for groups of CPUs that sysfs lists once per member, which group a CPU is in, so that each is read once.
class GroupFinder {
public:
    /// Ordinal of the group of `cpu`; `read` gives the members of a group not met before, nothing if unknown.
    template <class Read>
    std::optional<int> find(int cpu, Read read) {
        if (const auto known = group_of_.find(cpu); known != group_of_.end()) return known->second;
        const std::optional<std::vector<int>> members = read(cpu);
        if (!members || members->empty()) return std::nullopt;
        for (const int member : *members) group_of_.emplace(member, count_);
        group_of_.emplace(cpu, count_);
        return count_++;
    }

private:
    std::map<int, int> group_of_;
    int count_ = 0;
};

std::string cpu_folder(const TopologyOptions& options, int cpu) {
    return fmt::format("{}/devices/system/cpu/cpu{}", options.sysfs_root, cpu);
}

// core_cpus_list came with Linux 5.3; before, and still, the same list is called thread_siblings_list.
std::vector<int> read_siblings(const std::string& folder, int cpu) {
    for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
        if (auto siblings = read_list(folder + "/topology/" + name); siblings && !siblings->empty()) return *siblings;
    }
    return {cpu};
}

// Which cacheN/indexM is the level-3 cache; -1: none.
int find_l3_index(const std::string& folder) {
    for (int index = 0; index < 10; ++index) {
        const auto level = read_number(fmt::format("{}/cache/index{}/level", folder, index));
        if (!level) return -1;
        if (*level == 3) return index;
    }
    return -1;
}

// Groups found in different ways get one numbering, by first appearance.
void number_l3_densely(std::vector<Core>& cores) {
    std::map<int, int> ordinals;
    for (Core& core : cores) core.l3 = ordinals.emplace(core.l3, static_cast<int>(ordinals.size())).first->second;
}

int node_of(int cpu, const std::vector<NumaNode>& numa_nodes) {
    for (const NumaNode& node : numa_nodes)
        if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpu)) return node.index;
    return numa_nodes.empty() ? 0 : numa_nodes.front().index;
}

}  // namespace

std::vector<Core> read_cores(const TopologyOptions& options, const std::vector<int>& allowed_cpus,
                             const std::vector<NumaNode>& numa_nodes) {
    std::vector<Core> cores;
    std::set<int> done;
    GroupFinder l3_groups, package_groups;
    const int l3_index = allowed_cpus.empty() ? -1 : find_l3_index(cpu_folder(options, allowed_cpus.front()));
    for (const int cpu : allowed_cpus) {
        if (done.contains(cpu)) continue;
        const std::string folder = cpu_folder(options, cpu);
        Core core;
        core.cpus = intersect(read_siblings(folder, cpu), allowed_cpus);
        if (core.cpus.empty()) core.cpus = {cpu};
        done.insert(core.cpus.begin(), core.cpus.end());
        core.numa_node = node_of(cpu, numa_nodes);

        const auto package =
            package_groups.find(cpu, [&](int) { return read_list(folder + "/topology/core_siblings_list"); });
        core.package = package.value_or(0);

        std::optional<int> l3;
        if (l3_index >= 0) {
            l3 = l3_groups.find(
                cpu, [&](int) { return read_list(fmt::format("{}/cache/index{}/shared_cpu_list", folder, l3_index)); });
        }
        core.l3 = l3.value_or(-1 - core.numa_node);  // where there is no L3, the NUMA node stands in for it
        cores.push_back(std::move(core));
    }
    number_l3_densely(cores);
    return cores;
}

std::string read_cpu_model(const TopologyOptions& options) {
    const auto fields = read_fields(options.proc_root + "/cpuinfo");
    for (const char* key : {"model name", "cpu", "CPU part"})
        if (const auto found = fields.find(key); found != fields.end()) return found->second;
    return {};
}

}  // namespace autolaunch::launcher
