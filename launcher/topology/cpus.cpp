#include "base/text.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace autolaunch::launcher {
namespace {

// Remembers, for groups of CPUs that sysfs lists once per member, which group a CPU is in, so that
// each is read once.
class GroupFinder {
public:
    /// Ordinal of the group of `cpu`; `read` gives the members of a group not met before, nothing
    /// if unknown.
    template <class Read>
    std::optional<int> find(int cpu, Read read) {
        if (const auto known = group_of_.find(cpu); known != group_of_.end())
            return known->second;
        const std::optional<std::vector<int>> members = read(cpu);
        if (!members || members->empty())
            return std::nullopt;
        for (const int member : *members)
            group_of_.emplace(member, count_);
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

// Which cacheN/indexM is the level-3 cache; -1: none.
int find_l3_index(const std::string& folder) {
    for (int index = 0; index < 10; ++index) {
        const auto level = read_number(fmt::format("{}/cache/index{}/level", folder, index));
        if (!level)
            return -1;
        if (*level == 3)
            return index;
    }
    return -1;
}

// Groups found in different ways get one numbering, by first appearance. Returns their sizes, or
// nothing unless all are known.
std::vector<std::uint64_t> number_l3_densely(std::vector<Core>& cores,
                                             const std::map<int, std::uint64_t>& bytes) {
    std::map<int, int> ordinals;
    std::vector<std::uint64_t> sizes;
    for (Core& core : cores) {
        const auto [entry, is_new] = ordinals.emplace(core.l3, static_cast<int>(ordinals.size()));
        if (is_new) {
            const auto size = bytes.find(core.l3);
            sizes.push_back(size == bytes.end() ? 0 : size->second);
        }
        core.l3 = entry->second;
    }
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
        sizes.clear();
    return sizes;
}

// Which usable NUMA node a CPU goes to; CPUs beside no memory of ours go to the nearest.
class NodeFinder {
public:
    NodeFinder(const std::vector<SystemNumaNode>& system_nodes, const std::vector<NumaNode>& usable)
        : system_nodes_(system_nodes), usable_(usable) {}

    int find(int cpu) const {
        const auto has_cpu = [cpu](const NumaNode& node) {
            return std::binary_search(node.cpus.begin(), node.cpus.end(), cpu);
        };
        for (const NumaNode& node : usable_)
            if (has_cpu(node))
                return node.index;
        if (usable_.empty())
            return 0;
        for (const SystemNumaNode& entry : system_nodes_) {
            if (!has_cpu(entry.node))
                continue;
            const auto distances = distances_between(system_nodes_, entry.node.index, usable_);
            if (distances.empty())
                break;
            const auto nearest = std::min_element(distances.begin(), distances.end());
            return usable_[static_cast<std::size_t>(nearest - distances.begin())].index;
        }
        return usable_.front().index;
    }

private:
    const std::vector<SystemNumaNode>& system_nodes_;
    const std::vector<NumaNode>& usable_;
};

// "32768K"; 0: unknown.
std::uint64_t read_cache_bytes(const std::string& folder) {
    const std::string text = read_small(folder + "/size").value_or("");
    const std::size_t unit = text.find_first_not_of("0123456789");
    long long number = 0;
    if (!parse_integer(std::string_view(text).substr(0, unit), number) || number <= 0 ||
        number > 1 << 30)
        return 0;
    const char letter = unit == std::string::npos ? 0 : text[unit];
    return static_cast<std::uint64_t>(number) << (letter == 'K' ? 10 : letter == 'M' ? 20 : 0);
}

}  // namespace

// core_cpus_list came with Linux 5.3; before, and still, the same list is called
// thread_siblings_list.
std::vector<int> read_siblings(const TopologyOptions& options, int cpu) {
    const std::string folder = cpu_folder(options, cpu);
    for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
        if (auto siblings = read_list(folder + "/topology/" + name); siblings && !siblings->empty())
            return *siblings;
    }
    return {cpu};
}

std::optional<std::vector<int>> read_package(const TopologyOptions& options, int cpu) {
    return read_list(cpu_folder(options, cpu) + "/topology/core_siblings_list");
}

void read_cores(const TopologyOptions& options, const std::vector<SystemNumaNode>& system_nodes,
                NodeTopology& topology) {
    const std::vector<int>& allowed_cpus = topology.allowed_cpus;
    const NodeFinder nodes(system_nodes, topology.numa_nodes);
    std::set<int> done;
    std::map<int, std::uint64_t> l3_bytes;
    GroupFinder l3_groups, package_groups;
    const int l3_index =
        allowed_cpus.empty() ? -1 : find_l3_index(cpu_folder(options, allowed_cpus.front()));
    for (const int cpu : allowed_cpus) {
        if (done.contains(cpu))
            continue;
        const std::string folder = cpu_folder(options, cpu);
        Core core;
        core.cpus = intersect(read_siblings(options, cpu), allowed_cpus);
        // Each CPU goes to one core, also where the lists of siblings contradict each other.
        std::erase_if(core.cpus, [&](int sibling) { return done.contains(sibling); });
        if (!std::binary_search(core.cpus.begin(), core.cpus.end(), cpu))
            core.cpus = {cpu};
        done.insert(core.cpus.begin(), core.cpus.end());
        core.numa_node = nodes.find(cpu);

        const auto package =
            package_groups.find(cpu, [&](int) { return read_package(options, cpu); });
        core.package = package.value_or(0);

        std::optional<int> l3;
        const std::string l3_folder = fmt::format("{}/cache/index{}", folder, l3_index);
        if (l3_index >= 0)
            l3 =
                l3_groups.find(cpu, [&](int) { return read_list(l3_folder + "/shared_cpu_list"); });
        core.l3 = l3.value_or(
            -1 - core.numa_node);  // where there is no L3, the NUMA node stands in for it
        if (l3 && !l3_bytes.contains(core.l3))
            l3_bytes[core.l3] = read_cache_bytes(l3_folder);
        topology.cores.push_back(std::move(core));
    }
    topology.l3_bytes = number_l3_densely(topology.cores, l3_bytes);
}

std::string read_cpu_model(const TopologyOptions& options) {
    const auto fields = read_fields(options.proc_root + "/cpuinfo");
    for (const char* key : {"model name", "cpu", "CPU part"})
        if (const auto found = fields.find(key); found != fields.end())
            return found->second;
    return {};
}

}  // namespace autolaunch::launcher
