#include "base/text.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace autolaunch::launcher {
namespace {

// The first line is "Node 0 MemTotal:       11364564 kB".
std::uint64_t read_memory_bytes(const std::string& folder) {
    const auto text = read_small(folder + "/meminfo");
    if (!text)
        return 0;
    const std::size_t key = text->find("MemTotal:");
    if (key == std::string::npos)
        return 0;
    const std::size_t begin = text->find_first_of("0123456789", key);
    if (begin == std::string::npos)
        return 0;
    const std::size_t end = text->find_first_not_of("0123456789", begin);
    long long kib = 0;
    if (!parse_integer(std::string_view(*text).substr(begin, end - begin), kib) || kib < 0)
        return 0;
    return static_cast<std::uint64_t>(kib) * 1024;
}

std::vector<int> read_distances(const std::string& folder) {
    std::vector<int> distances;
    const auto text = read_small(folder + "/distance");
    if (!text)
        return distances;
    for (const std::string& word : split(*text, ' ')) {
        long long value = 0;
        if (parse_integer(word, value))
            distances.push_back(static_cast<int>(value));
    }
    return distances;
}

// Grace machines show GPU memory as NUMA nodes. The file says "Node: 2", or -1 where the memory is
// no node.
std::set<int> read_gpu_memory_nodes(const TopologyOptions& options) {
    const std::string folder = options.proc_root + "/driver/nvidia/gpus";
    std::set<int> nodes;
    for (const std::string& gpu : list_directory(folder)) {
        const auto fields = read_fields(folder + "/" + gpu + "/numa_status");
        const auto found = fields.find("Node");
        long long node = 0;
        if (found != fields.end() && parse_integer(found->second, node))
            nodes.insert(static_cast<int>(node));
    }
    return nodes;
}

}  // namespace

std::vector<SystemNumaNode> read_system_numa_nodes(const TopologyOptions& options) {
    const std::string folder = options.sysfs_root + "/devices/system/node";
    const std::vector<int> online = read_list(folder + "/online").value_or(std::vector<int>{});
    const std::set<int> gpu_memory =
        online.size() > 1 ? read_gpu_memory_nodes(options) : std::set<int>{};
    std::vector<SystemNumaNode> all;
    for (const int index : online) {
        if (gpu_memory.contains(index))
            continue;
        const std::string node_folder = fmt::format("{}/node{}", folder, index);
        SystemNumaNode entry;
        entry.node.index = index;
        entry.node.cpus = read_list(node_folder + "/cpulist").value_or(std::vector<int>{});
        entry.node.memory_bytes = read_memory_bytes(node_folder);
        // One node has no distances worth reading, and a matrix of another size cannot be matched
        // to the nodes.
        if (online.size() > 1)
            entry.node.distances = read_distances(node_folder);
        if (entry.node.distances.size() != online.size())
            entry.node.distances.clear();
        entry.nodes = online;
        all.push_back(std::move(entry));
    }
    return all;
}

std::vector<int> distances_between(const std::vector<SystemNumaNode>& all, int from,
                                   const std::vector<NumaNode>& to) {
    const auto source = std::find_if(all.begin(), all.end(), [&](const SystemNumaNode& entry) {
        return entry.node.index == from;
    });
    if (source == all.end() || source->node.distances.empty())
        return {};
    std::vector<int> distances;
    for (const NumaNode& target : to) {
        const auto column = std::find(source->nodes.begin(), source->nodes.end(), target.index);
        if (column == source->nodes.end())
            return {};
        distances.push_back(
            source->node.distances[static_cast<std::size_t>(column - source->nodes.begin())]);
    }
    return distances;
}

std::vector<NumaNode> usable_numa_nodes(const std::vector<SystemNumaNode>& all,
                                        const std::vector<int>& allowed_cpus,
                                        const std::vector<int>& allowed_memory_nodes) {
    std::vector<NumaNode> usable;
    for (const SystemNumaNode& entry : all) {
        NumaNode node = entry.node;
        node.cpus = intersect(node.cpus, allowed_cpus);
        // GPU memory and CXL memory show as nodes without CPUs; some sockets have CPUs without
        // memory.
        const bool memory_allowed =
            allowed_memory_nodes.empty() || is_subset({node.index}, allowed_memory_nodes);
        if (!node.cpus.empty() && node.memory_bytes > 0 && memory_allowed)
            usable.push_back(std::move(node));
    }
    for (NumaNode& node : usable)
        node.distances = distances_between(all, node.index, usable);
    return usable;
}

}  // namespace autolaunch::launcher
