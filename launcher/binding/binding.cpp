#include "binding/binding.hpp"

#include "base/text.hpp"
#include "binding/binding_list.hpp"
#include "binding/exclusive.hpp"
#include "binding/locality.hpp"
#include "topology/cpu_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr std::array<std::pair<std::string_view, BindingMode>, 5> kModes = {{
    // list is no word
    {"node", BindingMode::node},
    {"exclusive", BindingMode::exclusive},
    {"socket", BindingMode::socket},
    {"core-complex", BindingMode::core_complex},
    {"none", BindingMode::none},
}};

std::vector<CpuList> numa_domains(const NodeTopology& topology) {
    std::vector<CpuList> domains;
    CpuList left = topology.allowed_cpus;
    for (const NumaNode& node : nodes_by_index(topology)) {
        CpuList cpus = intersect(node.cpus, topology.allowed_cpus);
        left = without(left, cpus);
        if (!cpus.empty())
            domains.push_back(std::move(cpus));
    }
    if (!left.empty())
        domains.push_back(std::move(left));  // CPUs beside memory that we may not use
    return domains;
}

std::vector<CpuList> socket_domains(const NodeTopology& topology) {
    std::map<int, std::vector<Core>> sockets;
    for (const Core& core : topology.cores)
        sockets[core.package].push_back(core);
    std::vector<CpuList> domains;
    for (const auto& [package, cores] : sockets)
        domains.push_back(cpus_of(cores));
    if (domains.empty())
        domains.push_back(topology.allowed_cpus);
    return domains;
}

// PCI order of GPUs; partitions of one GPU in the order they are listed.
bool is_before(const NodeTopology& topology, const RankLocality& a, const RankLocality& b) {
    const auto key = [&](const RankLocality& rank) {
        const int position = rank.gpu_position.value_or(0);
        return std::pair(
            rank.gpu_position ? topology.gpus[static_cast<std::size_t>(position)].bdf : "",
            position);
    };
    return key(a) < key(b);
}

// Ranks with the same CPUs near them, each group in PCI order of its GPUs.
std::map<CpuList, std::vector<std::size_t>> group_by_locality(
    const NodeTopology& topology, const std::vector<RankLocality>& ranks) {
    std::map<CpuList, std::vector<std::size_t>> groups;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        if (ranks[rank].known)
            groups[ranks[rank].cpus].push_back(rank);
    for (auto& [cpus, members] : groups)
        std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
            return is_before(topology, ranks[a], ranks[b]);
        });
    return groups;
}

// Different sets of near CPUs that meet: one GPU's firmware names an L3, another's the whole NUMA
// node.
bool localities_overlap(const std::map<CpuList, std::vector<std::size_t>>& groups) {
    std::set<int> seen;
    for (const auto& [cpus, members] : groups)
        for (const int cpu : cpus)
            if (!seen.insert(cpu).second)
                return true;
    return false;
}

/// What the mode makes of the CPUs near each rank.
struct Choice {
    CpuList cpus;
    std::string how;
};

std::vector<Choice> choose(const NodeTopology& topology, const std::vector<RankLocality>& ranks,
                           BindingMode mode, std::vector<std::string>& warnings) {
    std::vector<Choice> choices;
    for (const RankLocality& rank : ranks)
        choices.push_back({rank.cpus, "all allowed CPUs there"});
    if (mode == BindingMode::socket) {
        const auto sockets = socket_domains(topology);
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            CpuList cpus;
            for (const CpuList& socket : sockets)
                if (!intersect(socket, ranks[rank].cpus).empty())
                    cpus.insert(cpus.end(), socket.begin(), socket.end());
            std::sort(cpus.begin(), cpus.end());
            choices[rank] = {std::move(cpus), "all allowed CPUs of that socket"};
        }
    }
    if (mode != BindingMode::exclusive && mode != BindingMode::core_complex)
        return choices;
    if (!topology.cores_are_told) {
        for (Choice& choice : choices)
            choice.how = "shared: which CPUs are one core is not told";
        warnings.push_back(fmt::format(
            "binding {} needs cores and caches, which this machine's file does not tell",
            binding_mode_name(mode)));
        return choices;
    }
    const auto groups = group_by_locality(topology, ranks);
    if (mode == BindingMode::exclusive && localities_overlap(groups))
        warnings.push_back(
            "some GPUs share only a part of the CPUs near them: exclusive cores may overlap there");
    for (const auto& [near, members] : groups) {
        const auto cores = cores_within(topology, near);
        const int parts = static_cast<int>(members.size());
        const bool exclusive = mode == BindingMode::exclusive;
        if (cores.empty() || (exclusive && parts > static_cast<int>(cores.size()))) {
            for (const std::size_t rank : members)
                choices[rank].how = "shared: fewer cores than ranks";
            warnings.push_back(fmt::format("{} ranks share {} cores: not enough for exclusive ones",
                                           parts, cores.size()));
            continue;
        }
        const auto split =
            exclusive ? split_cores(cores, parts) : choose_core_complexes(cores, parts);
        for (std::size_t i = 0; i < members.size(); ++i) {
            const auto& part = split[i];
            choices[members[i]] = {
                cpus_of(part),
                exclusive
                    ? fmt::format("{} core{} of its own", part.size(), part.size() == 1 ? "" : "s")
                    : fmt::format("the core complex of L3 {}", part.front().l3)};
        }
    }
    return choices;
}

// Ranks whose sets overlap share cores; each counts its part of every core.
std::vector<int> physical_cores_of(const NodeTopology& topology, const std::vector<CpuList>& sets) {
    std::map<int, std::size_t> core_of_cpu;
    for (std::size_t core = 0; core < topology.cores.size(); ++core)
        for (const int cpu : topology.cores[core].cpus)
            core_of_cpu[cpu] = core;
    std::vector<std::set<std::size_t>> cores_of_rank(sets.size());
    std::vector<int> users(topology.cores.size());
    for (std::size_t rank = 0; rank < sets.size(); ++rank) {
        for (const int cpu : sets[rank])
            if (const auto found = core_of_cpu.find(cpu); found != core_of_cpu.end())
                cores_of_rank[rank].insert(found->second);
        for (const std::size_t core : cores_of_rank[rank])
            ++users[core];
    }
    std::vector<int> counts;
    for (const auto& cores : cores_of_rank) {
        double share = 0;
        for (const std::size_t core : cores)
            share += 1.0 / users[core];
        counts.push_back(std::max(1, static_cast<int>(share + 1e-6)));
    }
    return counts;
}

std::vector<int> memory_nodes_of(const NodeTopology& topology, const CpuList& cpus) {
    std::vector<int> nodes;
    if (topology.numa_nodes.size() < 2)
        return nodes;  // nothing to choose
    for (const NumaNode& node : nodes_by_index(topology))
        if (!intersect(node.cpus, cpus).empty())
            nodes.push_back(node.index);
    return nodes;
}

// What each rank starts with: what its task may use, or else what we may.
std::vector<CpuList> inherited_masks(const NodeTopology& topology,
                                     const std::vector<CpuList>& of_tasks, std::size_t ranks) {
    if (of_tasks.size() == ranks)
        return of_tasks;
    return std::vector<CpuList>(ranks, topology.allowed_cpus);
}

// What the list says, and beside it where the rank's GPU is if that is elsewhere.
std::vector<Choice> choose_listed(const NodeTopology& topology,
                                  const std::vector<RankLocality>& ranks,
                                  const std::vector<std::string>& list,
                                  const std::vector<CpuList>& masks) {
    std::vector<Choice> choices;
    for (CpuList& cpus : resolve_binding_list(topology, list, masks)) {
        const std::size_t rank = choices.size();
        std::string how =
            fmt::format("resource_management.binding[{}] says {}", rank, trim(list[rank]));
        if (ranks[rank].gpu && ranks[rank].known && intersect(cpus, ranks[rank].cpus).empty())
            how += fmt::format("; remote: {}", ranks[rank].where);
        choices.push_back({std::move(cpus), std::move(how)});
    }
    return choices;
}

/// What one rank may run on, and why.
struct RankSet {
    CpuList cpus;         ///< never empty
    bool is_mask = true;  ///< all that it starts with: nothing is to be done
    std::string reason;
};

RankSet set_of(const NodeTopology& topology, BindingMode mode, const RankLocality& locality,
               const Choice& choice, const CpuList& mask) {
    if (mode == BindingMode::none)
        return {mask, true, "mode none: the inherited mask is left alone"};
    if (mode != BindingMode::list && !locality.known)
        return {mask, true, locality.where + ": not bound"};
    const std::string why =
        mode == BindingMode::list ? choice.how : fmt::format("{}: {}", locality.where, choice.how);
    CpuList cpus = intersect(choice.cpus, mask);
    if (!cpus.empty() && cpus != mask)
        return {std::move(cpus), false, why};
    const char* whose = mask == topology.allowed_cpus ? "right already" : "its task's own";
    return {mask, true,
            fmt::format("{}: the inherited mask is {}",
                        mode == BindingMode::list ? why : locality.where, whose)};
}

// CPUs that no rank runs on. One sentence, or none.
void note_idle_cpus(const NodeTopology& topology, const std::vector<CpuList>& sets,
                    BindingMode mode, const char* why, std::vector<std::string>& notes) {
    CpuList idle = topology.allowed_cpus;
    for (const CpuList& set : sets)
        idle = without(idle, set);
    if (idle.empty())
        return;
    if (mode == BindingMode::core_complex)
        why = "each rank has one core complex";
    if (mode == BindingMode::list)
        why = "resource_management.binding names them for no rank";
    notes.push_back(fmt::format("CPUs {} stay idle: {}", format_list(idle), why));
}

// A saved machine need not tell its CPUs.
BindingPlan bind_nowhere(const std::vector<int>& gpus, int rank_count) {
    BindingPlan plan;
    plan.warnings.push_back("this machine's CPUs are not told: ranks are not bound");
    for (int local_rank = 0; local_rank < rank_count; ++local_rank) {
        RankBinding& rank = plan.ranks.emplace_back();
        rank.local_rank = local_rank;
        rank.physical_cores = 0;
        if (local_rank < static_cast<int>(gpus.size()))
            rank.gpu = local_rank;
        rank.reason = "no CPU is told: not bound";
    }
    return plan;
}

}  // namespace

std::optional<BindingMode> binding_mode_from(std::string_view word) {
    for (const auto& [name, mode] : kModes)
        if (name == word)
            return mode;
    return std::nullopt;
}

std::string_view binding_mode_name(BindingMode mode) {
    for (const auto& [name, candidate] : kModes)
        if (candidate == mode)
            return name;
    return "list";
}

BindingPlan bind_ranks(const NodeTopology& topology, const std::vector<int>& gpus, int rank_count,
                       BindingMode mode, const std::vector<std::vector<int>>& inherited,
                       const std::vector<std::string>& list) {
    if (topology.allowed_cpus.empty() && mode != BindingMode::list)
        return bind_nowhere(gpus, rank_count);
    const bool by_socket = mode == BindingMode::socket;
    const bool by_place = mode != BindingMode::none && mode != BindingMode::list;
    auto [ranks, warnings, notes] = find_localities(
        topology, gpus, rank_count, by_socket ? socket_domains(topology) : numa_domains(topology),
        by_socket ? "socket" : "NUMA node");
    BindingPlan plan;
    if (by_place)
        plan.warnings = std::move(warnings);
    if (mode != BindingMode::none)
        plan.notes = std::move(notes);
    const auto masks = inherited_masks(topology, inherited, ranks.size());
    const auto choices = mode == BindingMode::list ? choose_listed(topology, ranks, list, masks)
                                                   : choose(topology, ranks, mode, plan.warnings);
    std::vector<CpuList> sets;  // what each rank may really run on
    for (std::size_t rank = 0; rank < choices.size(); ++rank) {
        RankSet set = set_of(topology, mode, ranks[rank], choices[rank], masks[rank]);
        if (by_place && ranks[rank].known && intersect(choices[rank].cpus, masks[rank]).empty())
            plan.warnings.push_back(fmt::format(
                "rank {} of this node runs on CPUs {}, to which its task is confined: {}", rank,
                format_list(masks[rank]), ranks[rank].where));
        RankBinding binding;
        binding.local_rank = static_cast<int>(rank);
        binding.gpu = ranks[rank].gpu;
        binding.reason = std::move(set.reason);
        if (!set.is_mask) {
            binding.cpus = set.cpus;
            binding.memory_nodes = memory_nodes_of(topology, set.cpus);
        }
        plan.ranks.push_back(std::move(binding));
        sets.push_back(std::move(set.cpus));
    }
    const auto cores = physical_cores_of(topology, sets);
    for (std::size_t rank = 0; rank < cores.size(); ++rank)
        plan.ranks[rank].physical_cores = topology.cores_are_told ? cores[rank] : 0;
    note_idle_cpus(topology, sets, mode,
                   inherited.empty()
                       ? (gpus.empty() ? "no rank falls to them" : "they are near no rank's GPU")
                       : "no task has them near a rank",
                   plan.notes);
    return plan;
}

}  // namespace autolaunch::launcher
