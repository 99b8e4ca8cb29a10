#include "binding/locality.hpp"

#include "base/text.hpp"
#include "binding/apportion.hpp"
#include "topology/cpu_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace autolaunch::launcher {
namespace {

// The usable node nearest to a GPU none of whose own CPUs we may use; the lowest when distances are
// unknown.
const NumaNode* nearest_node(const NodeTopology& topology, const Gpu& gpu) {
    const NumaNode* nearest = nullptr;
    std::pair<int, int> best;
    for (std::size_t i = 0; i < topology.numa_nodes.size(); ++i) {
        const bool known = gpu.node_distances.size() == topology.numa_nodes.size();
        const std::pair<int, int> distance{known ? gpu.node_distances[i] : 0,
                                           topology.numa_nodes[i].index};
        if (nearest && best <= distance)
            continue;
        nearest = &topology.numa_nodes[i];
        best = distance;
    }
    return nearest;
}

// Two dies of an MI250X hang from a NUMA node, each beside an L3 of its own: the lower PCI address
// beside the lower L3. Where a node has more of both, PCI order does not say which is beside which.
constexpr std::size_t kDiesPerNode = 2;

void narrow_to_l3(const NodeTopology& topology, const Gpu& gpu, RankLocality& locality) {
    if (gpu.vendor != "amd" || gpu.model.find("MI250") == std::string::npos)
        return;
    std::set<std::string> dies;
    for (const Gpu& other : topology.gpus)
        if (other.vendor == "amd" && other.local_cpus == gpu.local_cpus)
            dies.insert(other.bdf);
    std::map<int, std::vector<int>> l3_cpus;
    for (const Core& core : cores_within(topology, locality.cpus))
        l3_cpus[core.l3].insert(l3_cpus[core.l3].end(), core.cpus.begin(), core.cpus.end());
    if (dies.size() != kDiesPerNode || l3_cpus.size() != kDiesPerNode)
        return;
    const auto& [l3, cpus] = gpu.bdf == *dies.begin() ? *l3_cpus.begin() : *l3_cpus.rbegin();
    locality.cpus = cpus;
    std::sort(locality.cpus.begin(), locality.cpus.end());
    locality.where += fmt::format(", beside L3 {} of it", l3);
}

RankLocality near_gpu(const NodeTopology& topology, int position, int ordinal,
                      std::vector<std::string>& warnings) {
    const Gpu& gpu = topology.gpus[static_cast<std::size_t>(position)];
    RankLocality locality;
    locality.gpu_position = position;
    locality.cpus = intersect(gpu.local_cpus, topology.allowed_cpus);
    const std::string node =
        gpu.numa_node ? fmt::format("NUMA node {}", *gpu.numa_node) : "several NUMA nodes";
    if (!locality.cpus.empty()) {
        const std::string place =
            gpu.numa_node ? "on " + node : "near CPUs " + format_list(locality.cpus);
        locality.where = fmt::format("GPU {} is {} ({})", ordinal, place, gpu.numa_source);
        narrow_to_l3(topology, gpu, locality);
        return locality;
    }
    if (!gpu.numa_node && gpu.numa_source != "sysfs local_cpulist") {
        locality.known = topology.numa_nodes.size() == 1;
        locality.cpus = topology.allowed_cpus;
        locality.where = locality.known
                             ? fmt::format("GPU {} is on the only NUMA node", ordinal)
                             : fmt::format("no source says which NUMA node GPU {} is on", ordinal);
        return locality;
    }
    const NumaNode* nearest = nearest_node(topology, gpu);
    locality.cpus =
        nearest ? intersect(nearest->cpus, topology.allowed_cpus) : topology.allowed_cpus;
    if (locality.cpus.empty())
        locality.cpus = topology.allowed_cpus;
    locality.where =
        fmt::format("GPU {} is on {}, whose CPUs we may not use; remote", ordinal, node);
    warnings.push_back(fmt::format(
        "GPU {} is remote: none of the CPUs of {} is allowed; its rank runs on NUMA node {}",
        ordinal, node, nearest ? nearest->index : 0));
    return locality;
}

// Near which GPU each rank beyond the GPUs goes. In the end the ranks are apportioned to the places
// of GPUs by how many are there, as mpibind does; GPUs of a place take turns.
std::vector<std::size_t> gpus_of_further_ranks(const std::vector<RankLocality>& gpus,
                                               int rank_count) {
    std::vector<const RankLocality*> places;
    std::vector<int> gpus_there;
    std::vector<std::size_t> place_of;
    for (const RankLocality& gpu : gpus) {
        const auto same = [&](const RankLocality* place) {
            return place->known == gpu.known && place->cpus == gpu.cpus;
        };
        const auto found = std::find_if(places.begin(), places.end(), same);
        place_of.push_back(static_cast<std::size_t>(found - places.begin()));
        if (found == places.end()) {
            places.push_back(&gpu);
            gpus_there.push_back(0);
        }
        ++gpus_there[place_of.back()];
    }
    std::vector<int> free = apportion(gpus_there, rank_count);
    for (std::size_t place = 0; place < places.size(); ++place)
        free[place] -= gpus_there[place];
    std::vector<std::size_t> chosen;
    const auto wanted = static_cast<std::size_t>(rank_count) - gpus.size();
    for (std::size_t gpu = 0; chosen.size() < wanted; gpu = (gpu + 1) % gpus.size())
        if (free[place_of[gpu]]-- > 0)
            chosen.push_back(gpu);
    return chosen;
}

// Contiguous groups of parties for fewer ranks than parties: every party goes to one rank.
std::vector<RankLocality> spread_over(const std::vector<std::vector<int>>& domains, int rank_count,
                                      const std::string& domain_name) {
    const auto shares = apportion(std::vector<int>(static_cast<std::size_t>(rank_count), 1),
                                  static_cast<int>(domains.size()));
    std::vector<RankLocality> ranks;
    auto domain = domains.begin();
    for (const int share : shares) {
        RankLocality locality;
        for (int i = 0; i < share; ++i, ++domain)
            locality.cpus.insert(locality.cpus.end(), domain->begin(), domain->end());
        std::sort(locality.cpus.begin(), locality.cpus.end());
        locality.where =
            fmt::format("no GPU; its share is {} of {} {}s", share, domains.size(), domain_name);
        ranks.push_back(std::move(locality));
    }
    return ranks;
}

std::vector<RankLocality> deal_over(const NodeTopology& topology,
                                    const std::vector<std::vector<int>>& domains, int rank_count,
                                    const std::string& domain_name) {
    std::vector<int> weights;
    for (const auto& cpus : domains)
        weights.push_back(static_cast<int>(cores_within(topology, cpus).size()));
    const auto shares = apportion(weights, rank_count);
    std::vector<RankLocality> ranks;
    for (std::size_t i = 0; i < domains.size(); ++i) {
        RankLocality locality;
        locality.cpus = domains[i];
        locality.where = fmt::format("no GPU; {} of {} ranks fall to this {} by its cores",
                                     shares[i], rank_count, domain_name);
        ranks.insert(ranks.end(), static_cast<std::size_t>(shares[i]), locality);
    }
    return ranks;
}

}  // namespace

Localities find_localities(const NodeTopology& topology, const std::vector<int>& gpus,
                           int rank_count, const std::vector<std::vector<int>>& domains,
                           const std::string& domain_name) {
    Localities result;
    if (gpus.empty()) {
        const bool spread = rank_count < static_cast<int>(domains.size());
        result.ranks = spread ? spread_over(domains, rank_count, domain_name)
                              : deal_over(topology, domains, rank_count, domain_name);
        return result;
    }
    const int gpu_count = static_cast<int>(gpus.size());
    std::vector<RankLocality> of_gpus;
    for (int ordinal = 0; ordinal < gpu_count; ++ordinal) {
        std::vector<std::string> warnings;
        of_gpus.push_back(
            near_gpu(topology, gpus[static_cast<std::size_t>(ordinal)], ordinal, warnings));
        of_gpus.back().gpu = ordinal;
        if (ordinal < rank_count)
            result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
    }
    result.ranks = of_gpus;
    if (rank_count < gpu_count) {
        result.ranks.resize(static_cast<std::size_t>(rank_count));
        std::vector<int> unused(static_cast<std::size_t>(gpu_count - rank_count));
        std::iota(unused.begin(), unused.end(), rank_count);
        result.notes.push_back(fmt::format("{} GPUs, {} rank{}: no rank is placed near GPU{} {}",
                                           gpu_count, rank_count, rank_count == 1 ? "" : "s",
                                           unused.size() == 1 ? "" : "s", format_list(unused)));
    }
    if (rank_count > gpu_count)
        for (const std::size_t gpu : gpus_of_further_ranks(of_gpus, rank_count)) {
            RankLocality locality = of_gpus[gpu];
            locality.gpu.reset();
            locality.where = fmt::format("no GPU of its own ({} ranks, {} GPUs); {}", rank_count,
                                         gpu_count, locality.where);
            result.ranks.push_back(std::move(locality));
        }
    if (std::any_of(result.ranks.begin(), result.ranks.end(),
                    [](const RankLocality& rank) { return !rank.known; }))
        result.warnings.push_back(
            "the NUMA node of some GPUs is unknown: their ranks are not bound");
    return result;
}

}  // namespace autolaunch::launcher
