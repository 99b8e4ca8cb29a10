#include "binding/binding.hpp"

#include "base/text.hpp"
#include "binding/exclusive.hpp"
#include "binding/locality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace autolaunch::launcher {
namespace {

using CpuList = std::vector<int>;

constexpr std::array<std::pair<std::string_view, BindingMode>, 5> kModes = {{
    {"node", BindingMode::node},
    {"exclusive", BindingMode::exclusive},
    {"socket", BindingMode::socket},
    {"core-complex", BindingMode::core_complex},
    {"none", BindingMode::none},
}};

CpuList cpus_of(const std::vector<Core>& cores) {
    CpuList cpus;
    for (const Core& core : cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

std::vector<CpuList> numa_domains(const NodeTopology& topology) {
    std::vector<CpuList> domains;
    CpuList left = topology.allowed_cpus;
    for (const NumaNode& node : topology.numa_nodes) {
        CpuList cpus = sorted_intersection(node.cpus, topology.allowed_cpus);
        std::erase_if(left, [&](int cpu) { return std::binary_search(cpus.begin(), cpus.end(), cpu); });
        if (!cpus.empty()) domains.push_back(std::move(cpus));
    }
    if (!left.empty()) domains.push_back(std::move(left));  // CPUs beside memory that we may not use
    return domains;
}

std::vector<CpuList> socket_domains(const NodeTopology& topology) {
    std::map<int, std::vector<Core>> sockets;
    for (const Core& core : topology.cores) sockets[core.package].push_back(core);
    std::vector<CpuList> domains;
    for (const auto& [package, cores] : sockets) domains.push_back(cpus_of(cores));
    if (domains.empty()) domains.push_back(topology.allowed_cpus);
    return domains;
}

// Ranks with the same CPUs near them, each group in PCI order of its GPUs.
std::vector<std::vector<std::size_t>> group_by_locality(const std::vector<RankLocality>& ranks) {
    std::map<CpuList, std::vector<std::size_t>> groups;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        if (ranks[rank].known) groups[ranks[rank].cpus].push_back(rank);
    std::vector<std::vector<std::size_t>> ordered;
    for (auto& [cpus, members] : groups) {
        std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
            return ranks[a].gpu_position.value_or(0) < ranks[b].gpu_position.value_or(0);
        });
        ordered.push_back(std::move(members));
    }
    return ordered;
}

// Different sets of near CPUs that meet: one GPU's firmware names an L3, another's the whole NUMA node.
bool localities_overlap(const std::vector<RankLocality>& ranks) {
    for (const RankLocality& a : ranks)
        for (const RankLocality& b : ranks)
            if (a.known && b.known && a.cpus != b.cpus && !sorted_intersection(a.cpus, b.cpus).empty()) return true;
    return false;
}

/// What the mode makes of the CPUs near each rank.
struct Choice {
    CpuList cpus;
    std::string how;
};

std::vector<Choice> choose(const NodeTopology& topology, const std::vector<RankLocality>& ranks, BindingMode mode,
                           std::vector<std::string>& warnings) {
    std::vector<Choice> choices;
    for (const RankLocality& rank : ranks) choices.push_back({rank.cpus, "all allowed CPUs there"});
    if (mode == BindingMode::socket) {
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            CpuList cpus;
            for (const CpuList& socket : socket_domains(topology))
                if (!sorted_intersection(socket, ranks[rank].cpus).empty())
                    cpus.insert(cpus.end(), socket.begin(), socket.end());
            std::sort(cpus.begin(), cpus.end());
            choices[rank] = {std::move(cpus), "all allowed CPUs of that socket"};
        }
    }
    if (mode != BindingMode::exclusive && mode != BindingMode::core_complex) return choices;
    if (mode == BindingMode::exclusive && localities_overlap(ranks))
        warnings.push_back("some GPUs share only a part of the CPUs near them: exclusive cores may overlap there");
    for (const auto& members : group_by_locality(ranks)) {
        const auto cores = cores_within(topology, ranks[members.front()].cpus);
        const int parts = static_cast<int>(members.size());
        const bool exclusive = mode == BindingMode::exclusive;
        if (cores.empty() || (exclusive && parts > static_cast<int>(cores.size()))) {
            for (const std::size_t rank : members) choices[rank].how = "shared: fewer cores than ranks";
            warnings.push_back(
                fmt::format("{} ranks share {} cores: not enough for exclusive ones", parts, cores.size()));
            continue;
        }
        const auto split = exclusive ? split_cores(cores, parts) : choose_core_complexes(cores, parts);
        for (std::size_t i = 0; i < members.size(); ++i) {
            const auto& part = split[i];
            choices[members[i]] = {
                cpus_of(part), exclusive ? fmt::format("{} core{} of its own", part.size(), part.size() == 1 ? "" : "s")
                                         : fmt::format("the core complex of L3 {}", part.front().l3)};
        }
    }
    return choices;
}

// Ranks whose sets overlap share cores; each counts its part of every core.
int physical_cores_of(const NodeTopology& topology, const std::vector<CpuList>& sets, std::size_t rank) {
    const auto cores = cores_within(topology, sets[rank]);
    double share = 0;
    for (const Core& core : cores) {
        int users = 0;
        for (const CpuList& other : sets)
            if (!sorted_intersection(core.cpus, other).empty()) ++users;
        share += 1.0 / std::max(users, 1);
    }
    return std::max(1, static_cast<int>(share + 1e-6));
}

std::vector<int> memory_nodes_of(const NodeTopology& topology, const CpuList& cpus) {
    std::vector<int> nodes;
    if (topology.numa_nodes.size() < 2) return nodes;  // nothing to choose
    for (const NumaNode& node : topology.numa_nodes)
        if (!sorted_intersection(node.cpus, cpus).empty()) nodes.push_back(node.index);
    return nodes;
}

// What each rank starts with: what its task may use, or else what we may.
std::vector<CpuList> inherited_masks(const NodeTopology& topology, const std::vector<CpuList>& of_tasks,
                                     std::size_t ranks) {
    if (of_tasks.size() == ranks) return of_tasks;
    return std::vector<CpuList>(ranks, topology.allowed_cpus);
}

}  // namespace

std::optional<BindingMode> binding_mode_from(std::string_view word) {
    for (const auto& [name, mode] : kModes)
        if (name == word) return mode;
    return std::nullopt;
}

std::string_view binding_mode_name(BindingMode mode) {
    for (const auto& [name, candidate] : kModes)
        if (candidate == mode) return name;
    return "?";
}

BindingPlan bind_ranks(const NodeTopology& topology, const std::vector<int>& gpus, int rank_count, BindingMode mode,
                       const std::vector<std::vector<int>>& inherited) {
    const bool by_socket = mode == BindingMode::socket;
    auto localities =
        find_localities(topology, gpus, rank_count, by_socket ? socket_domains(topology) : numa_domains(topology),
                        by_socket ? "socket" : "NUMA node");
    BindingPlan plan;
    if (mode != BindingMode::none) plan.warnings = std::move(localities.warnings);
    const auto choices = choose(topology, localities.ranks, mode, plan.warnings);

    const auto masks = inherited_masks(topology, inherited, choices.size());
    std::vector<CpuList> sets;  // what each rank may really run on
    for (std::size_t rank = 0; rank < choices.size(); ++rank) {
        const bool bound = mode != BindingMode::none && localities.ranks[rank].known;
        sets.push_back(bound ? sorted_intersection(choices[rank].cpus, masks[rank]) : masks[rank]);
        if (!sets[rank].empty()) continue;
        sets[rank] = masks[rank];
        plan.warnings.push_back(fmt::format("rank {} of this node runs on CPUs {}, to which its task is confined: {}",
                                            rank, format_list(masks[rank]), localities.ranks[rank].where));
    }
    for (std::size_t rank = 0; rank < choices.size(); ++rank) {
        const RankLocality& locality = localities.ranks[rank];
        RankBinding binding;
        binding.local_rank = static_cast<int>(rank);
        binding.gpu = locality.gpu;
        binding.physical_cores = physical_cores_of(topology, sets, rank);
        if (mode == BindingMode::none) {
            binding.reason = "mode none: the inherited mask is left alone";
        } else if (!locality.known) {
            binding.reason = locality.where + ": not bound";
        } else if (sets[rank] == masks[rank]) {
            binding.reason = fmt::format("{}: the inherited mask is {}", locality.where,
                                         masks[rank] == topology.allowed_cpus ? "right already" : "its task's own");
        } else {
            binding.cpus = sets[rank];
            binding.memory_nodes = memory_nodes_of(topology, binding.cpus);
            binding.reason = fmt::format("{}: {}", locality.where, choices[rank].how);
        }
        plan.ranks.push_back(std::move(binding));
    }
    return plan;
}

}  // namespace autolaunch::launcher
