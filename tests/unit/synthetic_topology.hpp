#pragma once
// Machines made up for tests: regular ones, with GPUs spread evenly over the NUMA nodes.

#include "topology/node_topology.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher::testing {

struct Shape {
    int packages = 2;
    int numa_per_package = 1;
    int l3_per_numa = 1;
    int cores_per_l3 = 8;
    int threads = 2;  // the second threads are numbered after all first ones, as on x86
    int gpus = 0;
    int first_numa_index = 0, numa_index_step = 1;
};

inline NodeTopology make_machine(const Shape& shape) {
    NodeTopology topology;
    topology.hostname = "synthetic";
    topology.package_count = shape.packages;
    const int nodes = shape.packages * shape.numa_per_package;
    const int cores_per_numa = shape.l3_per_numa * shape.cores_per_l3;
    const int cores = nodes * cores_per_numa;
    for (int n = 0; n < nodes; ++n) {
        NumaNode node;
        node.index = shape.first_numa_index + n * shape.numa_index_step;
        node.memory_bytes = 1ull << 36;
        for (int other = 0; other < nodes; ++other)
            node.distances.push_back(other == n ? 10
                                     : other / shape.numa_per_package == n / shape.numa_per_package
                                         ? 12
                                         : 32);
        for (int c = n * cores_per_numa; c < (n + 1) * cores_per_numa; ++c) {
            Core core;
            for (int t = 0; t < shape.threads; ++t)
                core.cpus.push_back(c + t * cores);
            core.package = n / shape.numa_per_package;
            core.numa_node = node.index;
            core.l3 = c / shape.cores_per_l3;
            node.cpus.insert(node.cpus.end(), core.cpus.begin(), core.cpus.end());
            topology.cores.push_back(core);
        }
        std::sort(node.cpus.begin(), node.cpus.end());
        topology.numa_nodes.push_back(node);
    }
    for (int cpu = 0; cpu < cores * shape.threads; ++cpu)
        topology.allowed_cpus.push_back(cpu);
    for (int g = 0; g < shape.gpus; ++g) {
        const NumaNode& node =
            topology.numa_nodes[static_cast<std::size_t>(g * nodes / shape.gpus)];
        Gpu gpu;
        gpu.bdf = fmt::format("0000:{:02x}:00.0", 0x10 + g * 0x11);
        gpu.uuid = fmt::format("GPU-{:08x}", 0xa000 + g);
        gpu.model = "NVIDIA H100 80GB HBM3";
        gpu.vendor = "nvidia";
        gpu.index = g;
        gpu.numa_node = node.index;
        gpu.numa_source = "sysfs numa_node";
        gpu.local_cpus = node.cpus;
        gpu.node_distances = node.distances;
        topology.gpus.push_back(gpu);
    }
    return topology;
}

/// The same machine, of which only `cpus` may be used.
inline NodeTopology confine(NodeTopology topology, const std::vector<int>& cpus) {
    const auto cut = [&](std::vector<int>& list) {
        list.erase(std::remove_if(list.begin(), list.end(),
                                  [&](int cpu) {
                                      return std::find(cpus.begin(), cpus.end(), cpu) == cpus.end();
                                  }),
                   list.end());
    };
    const std::vector<NumaNode> all = topology.numa_nodes;
    cut(topology.allowed_cpus);
    for (Core& core : topology.cores)
        cut(core.cpus);
    for (NumaNode& node : topology.numa_nodes)
        cut(node.cpus);
    for (Gpu& gpu : topology.gpus)
        cut(gpu.local_cpus);
    std::erase_if(topology.cores, [](const Core& core) { return core.cpus.empty(); });
    std::erase_if(topology.numa_nodes, [](const NumaNode& node) { return node.cpus.empty(); });
    const auto kept_distances = [&](const std::vector<int>& distances) {
        std::vector<int> kept;
        for (std::size_t i = 0; i < distances.size(); ++i)
            for (const NumaNode& node : topology.numa_nodes)
                if (node.index == all[i].index)
                    kept.push_back(distances[i]);
        return kept;
    };
    for (NumaNode& node : topology.numa_nodes)
        node.distances = kept_distances(node.distances);
    for (Gpu& gpu : topology.gpus)
        gpu.node_distances = kept_distances(gpu.node_distances);
    return topology;
}

}  // namespace autolaunch::launcher::testing
