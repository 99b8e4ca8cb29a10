#include "topology/cpu_sets.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace autolaunch::launcher {

CpuList intersect(const CpuList& a, const CpuList& b) {
    CpuList both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

CpuList unite(const CpuList& a, const CpuList& b) {
    CpuList all;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
    return all;
}

CpuList without(const CpuList& a, const CpuList& b) {
    CpuList rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
    return rest;
}

bool is_subset(const CpuList& part, const CpuList& whole) {
    return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

CpuList cpus_of(const std::vector<Core>& cores) {
    CpuList cpus;
    for (const Core& core : cores)
        cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

std::vector<Core> cores_within(const NodeTopology& topology, const CpuList& cpus) {
    std::vector<Core> cores;
    for (const Core& core : topology.cores) {
        Core part = core;
        part.cpus = intersect(core.cpus, cpus);
        if (!part.cpus.empty())
            cores.push_back(std::move(part));
    }
    return cores;
}

std::vector<Core> cores_by_first_cpu(const NodeTopology& topology) {
    std::vector<Core> cores = topology.cores;
    std::sort(cores.begin(), cores.end(),
              [](const Core& a, const Core& b) { return a.cpus.front() < b.cpus.front(); });
    return cores;
}

std::vector<NumaNode> nodes_by_index(const NodeTopology& topology) {
    std::vector<NumaNode> nodes = topology.numa_nodes;
    std::sort(nodes.begin(), nodes.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.index < b.index; });
    return nodes;
}

}  // namespace autolaunch::launcher
