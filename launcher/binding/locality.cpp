#include "binding/locality.hpp"

#include "binding/apportion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace autolaunch::launcher {
namespace {

// The usable node nearest to a GPU none of whose own CPUs we may use; the first when distances are unknown.
const NumaNode* nearest_node(const NodeTopology& topology, const Gpu& gpu) {
    if (topology.numa_nodes.empty()) return nullptr;
    if (gpu.node_distances.size() != topology.numa_nodes.size()) return &topology.numa_nodes.front();
    const auto nearest = std::min_element(gpu.node_distances.begin(), gpu.node_distances.end());
    return &topology.numa_nodes[static_cast<std::size_t>(nearest - gpu.node_distances.begin())];
}

RankLocality near_gpu(const NodeTopology& topology, int position, int ordinal, std::vector<std::string>& warnings) {
    const Gpu& gpu = topology.gpus[static_cast<std::size_t>(position)];
    RankLocality locality;
    locality.gpu_position = position;
    locality.cpus = sorted_intersection(gpu.local_cpus, topology.allowed_cpus);
    const std::string node = gpu.numa_node ? fmt::format("NUMA node {}", *gpu.numa_node) : "several NUMA nodes";
    if (!locality.cpus.empty()) {
        locality.where = fmt::format("GPU {} is on {} ({})", ordinal, node, gpu.numa_source);
        return locality;
    }
    if (!gpu.numa_node && gpu.numa_source != "sysfs local_cpulist") {
        locality.known = topology.numa_nodes.size() <= 1;
        locality.cpus = topology.allowed_cpus;
        locality.where = fmt::format("no source says which NUMA node GPU {} is on", ordinal);
        return locality;
    }
    const NumaNode* nearest = nearest_node(topology, gpu);
    locality.cpus = nearest ? sorted_intersection(nearest->cpus, topology.allowed_cpus) : topology.allowed_cpus;
    if (locality.cpus.empty()) locality.cpus = topology.allowed_cpus;
    locality.where = fmt::format("GPU {} is on {}, whose CPUs we may not use; remote", ordinal, node);
    warnings.push_back(fmt::format("GPU {} is remote: none of the CPUs of {} is allowed; its rank runs on NUMA node {}",
                                   ordinal, node, nearest ? nearest->index : 0));
    return locality;
}

// Contiguous groups of parties for fewer ranks than parties: every party goes to one rank.
std::vector<RankLocality> spread_over(const std::vector<std::vector<int>>& domains, int rank_count,
                                      const std::string& domain_name) {
    const auto shares =
        apportion(std::vector<int>(static_cast<std::size_t>(rank_count), 1), static_cast<int>(domains.size()));
    std::vector<RankLocality> ranks;
    auto domain = domains.begin();
    for (const int share : shares) {
        RankLocality locality;
        for (int i = 0; i < share; ++i, ++domain)
            locality.cpus.insert(locality.cpus.end(), domain->begin(), domain->end());
        std::sort(locality.cpus.begin(), locality.cpus.end());
        locality.where = fmt::format("no GPU; its share is {} of {} {}s", share, domains.size(), domain_name);
        ranks.push_back(std::move(locality));
    }
    return ranks;
}

std::vector<RankLocality> deal_over(const NodeTopology& topology, const std::vector<std::vector<int>>& domains,
                                    int rank_count, const std::string& domain_name) {
    std::vector<int> weights;
    for (const auto& cpus : domains) weights.push_back(static_cast<int>(cores_within(topology, cpus).size()));
    const auto shares = apportion(weights, rank_count);
    std::vector<RankLocality> ranks;
    for (std::size_t i = 0; i < domains.size(); ++i) {
        RankLocality locality;
        locality.cpus = domains[i];
        locality.where =
            fmt::format("no GPU; {} of {} ranks fall to this {} by its cores", shares[i], rank_count, domain_name);
        ranks.insert(ranks.end(), static_cast<std::size_t>(shares[i]), locality);
    }
    return ranks;
}

}  // namespace

std::vector<int> sorted_intersection(const std::vector<int>& a, const std::vector<int>& b) {
    std::vector<int> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

std::vector<Core> cores_within(const NodeTopology& topology, const std::vector<int>& cpus) {
    std::vector<Core> cores;
    for (const Core& core : topology.cores) {
        Core part = core;
        part.cpus = sorted_intersection(core.cpus, cpus);
        if (!part.cpus.empty()) cores.push_back(std::move(part));
    }
    return cores;
}

Localities find_localities(const NodeTopology& topology, const std::vector<int>& gpus, int rank_count,
                           const std::vector<std::vector<int>>& domains, const std::string& domain_name) {
    Localities result;
    if (gpus.empty()) {
        const bool spread = rank_count < static_cast<int>(domains.size());
        result.ranks = spread ? spread_over(domains, rank_count, domain_name)
                              : deal_over(topology, domains, rank_count, domain_name);
        return result;
    }
    const int gpu_count = static_cast<int>(gpus.size());
    for (int rank = 0; rank < rank_count; ++rank) {
        const int ordinal = rank % gpu_count;
        std::vector<std::string> warnings;
        auto locality = near_gpu(topology, gpus[static_cast<std::size_t>(ordinal)], ordinal, warnings);
        if (rank < gpu_count) {
            locality.gpu = ordinal;
            result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
        } else {
            locality.where =
                fmt::format("no GPU of its own ({} ranks, {} GPUs); {}", rank_count, gpu_count, locality.where);
        }
        result.ranks.push_back(std::move(locality));
    }
    if (std::any_of(result.ranks.begin(), result.ranks.end(), [](const RankLocality& rank) { return !rank.known; }))
        result.warnings.push_back("the NUMA node of some GPUs is unknown: their ranks are not bound");
    return result;
}

}  // namespace autolaunch::launcher
