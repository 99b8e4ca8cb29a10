#pragma once
#include "binding/binding.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/nccl_topology.hpp"
#include "topology/path_class.hpp"
#include "topology/smi_topology.hpp"
#include "topology/xml.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// A saved machine's file: a topology that holds together and on which ranks can be placed, or a
/// refusal that names the file. Aborts where that is not so. hwloc's files are not read here: their
/// parser is hwloc's.
namespace autolaunch::launcher::capture {

inline void require(bool holds) {
    if (!holds)
        std::abort();
}

inline bool ascends(const std::vector<int>& numbers) {
    return std::adjacent_find(numbers.begin(), numbers.end(),
                              [](int a, int b) { return a >= b; }) == numbers.end();
}

/// What node_topology.hpp promises.
inline void check_facts(const NodeTopology& topology) {
    require(ascends(topology.allowed_cpus));
    std::vector<int> of_cores;
    for (const Core& core : topology.cores)
        of_cores.insert(of_cores.end(), core.cpus.begin(), core.cpus.end());
    std::sort(of_cores.begin(), of_cores.end());
    require(of_cores == topology.allowed_cpus);
    for (const NumaNode& node : topology.numa_nodes) {
        require(ascends(node.cpus) && is_subset(node.cpus, topology.allowed_cpus));
        require(node.distances.empty() || node.distances.size() == topology.numa_nodes.size());
    }
    for (const Gpu& gpu : topology.gpus)
        require(ascends(gpu.local_cpus) && is_subset(gpu.local_cpus, topology.allowed_cpus));
    require(std::is_sorted(topology.gpus.begin(), topology.gpus.end(),
                           [](const Gpu& a, const Gpu& b) { return a.index < b.index; }));
}

inline void check_paths(const NodeTopology& topology) {
    constexpr std::size_t kMost = 16;
    const std::size_t gpus = std::min(topology.gpus.size(), kMost),
                      hcas = std::min(topology.hcas.size(), kMost);
    for (std::size_t i = 0; i < gpus; ++i) {
        for (std::size_t j = 0; j < gpus; ++j)
            require(path_between(topology, topology.gpus[i], topology.gpus[j]) ==
                    path_between(topology, topology.gpus[j], topology.gpus[i]));
        for (std::size_t j = 0; j < hcas; ++j)
            require(!path_class_name(path_between(topology, topology.gpus[i], topology.hcas[j]))
                         .empty());
    }
}

inline void check_binding(const NodeTopology& topology) {
    constexpr std::size_t kMost = 16;
    std::vector<int> gpus(std::min(topology.gpus.size(), kMost));
    std::iota(gpus.begin(), gpus.end(), 0);
    const int ranks = std::max(1, static_cast<int>(gpus.size()));
    for (const BindingMode mode : {BindingMode::node, BindingMode::exclusive, BindingMode::socket,
                                   BindingMode::core_complex}) {
        const BindingPlan plan = bind_ranks(topology, gpus, ranks, mode);
        require(plan.ranks.size() == static_cast<std::size_t>(ranks));
        const int fewest = topology.cores_are_told && !topology.allowed_cpus.empty() ? 1 : 0;
        for (const RankBinding& rank : plan.ranks)
            require(ascends(rank.cpus) && is_subset(rank.cpus, topology.allowed_cpus) &&
                    rank.physical_cores >= fewest);
    }
}

inline std::optional<NodeTopology> read(std::string_view bytes) {
    const std::string file = "saved.xml";
    if (!bytes.starts_with('<'))
        return read_smi_topology(bytes, file);
    const XmlElement root = parse_xml(bytes, file);
    return root.name == "system" ? std::optional(read_nccl_topology(root, file)) : std::nullopt;
}

/// Whether there was a machine in it.
inline bool check_capture_bytes(std::string_view bytes) {
    if (bytes.find('\0') != bytes.npos)
        return false;  // read_capture() refuses those before
    try {
        const auto topology = read(bytes);
        if (!topology)
            return false;
        check_facts(*topology);
        check_paths(*topology);
        check_binding(*topology);
        return true;
    } catch (const Error& error) {
        require(error.code() == ErrorCode::invalid_argument &&
                std::string_view(error.what()).starts_with("saved.xml:"));
        return false;
    }
}

}  // namespace autolaunch::launcher::capture
