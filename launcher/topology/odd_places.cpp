#include "topology/odd_places.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace autolaunch::launcher {
namespace {

std::string nearest_text(const NodeTopology& topology, const std::vector<int>& distances) {
    if (topology.numa_nodes.size() == 1)
        return fmt::format("node {} is the only one", topology.numa_nodes.front().index);
    if (distances.size() != topology.numa_nodes.size())
        return "which one is nearest is not told";
    const auto least = std::min_element(distances.begin(), distances.end());
    const auto place = static_cast<std::size_t>(least - distances.begin());
    return fmt::format("node {} is the nearest", topology.numa_nodes[place].index);
}

}  // namespace

std::string why_no_rank_is_on(const NumaNode& node, std::size_t cpu_count, bool may_have_memory) {
    if (node.cpus.empty() && cpu_count > 0)
        return "none of its CPUs may be used here (cpuset or affinity)";
    if (node.cpus.empty())
        return node.memory_bytes == 0 ? "neither CPUs nor memory that may be used" : kMemoryAlone;
    if (node.memory_bytes == 0)
        return "no memory: its CPUs count to the nearest node that has some";
    return may_have_memory ? "" : "its memory may not be used here (cpuset)";
}

void note_odd_places(NodeTopology& topology,
                     const std::function<std::vector<int>(int)>& distances) {
    std::map<int, std::vector<std::string>> devices;
    const auto look_at = [&](const std::optional<int>& node, const std::string& name) {
        const bool known =
            node && std::any_of(topology.numa_nodes.begin(), topology.numa_nodes.end(),
                                [&](const NumaNode& n) { return n.index == *node; });
        if (node && !known)
            devices[*node].push_back(name);
    };
    for (const Gpu& gpu : topology.gpus)
        look_at(gpu.numa_node, fmt::format("GPU {}", gpu.index));
    for (const Hca& hca : topology.hcas)
        look_at(hca.numa_node, hca.name);
    if (topology.numa_nodes.empty())
        return;
    for (const auto& [node, names] : devices)
        topology.notes.push_back(fmt::format(
            "{} {} on NUMA node {}, which no rank is placed on: {}", join(names, ", "),
            names.size() == 1 ? "is" : "are", node, nearest_text(topology, distances(node))));
}

}  // namespace autolaunch::launcher
