#include "plan/job_shape.hpp"

#include "base/refuse.hpp"
#include "plan/usable_gpus.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr int kMostRanksPerNode = 4096;

// The spec's number, whoever is to start so many; nothing: it says none.
std::optional<int> asked_ranks(const ResourceSpec& resources, std::size_t gpu_count,
                               std::size_t cpu_count) {
    switch (resources.ranks_mode) {
        case RanksPerNode::unset:
            return std::nullopt;
        case RanksPerNode::automatic:
            return static_cast<int>(gpu_count > 0 ? gpu_count : cpu_count);
        case RanksPerNode::cpu:
            return static_cast<int>(cpu_count);
        case RanksPerNode::fixed:
            return resources.ranks_per_node;
        case RanksPerNode::gpu:
            if (gpu_count == 0)
                refuse("one rank a GPU is asked for, but no GPU can be used here",
                       "give a number of ranks, or `cpu` for one a CPU");
            return static_cast<int>(gpu_count);
    }
    return std::nullopt;
}

// Several tasks on a node mean one task a rank. torchrun's --nproc-per-node counts for each
// launcher, the spec's number for the node.
int ranks_of_tasks(int tasks, std::optional<int> asked, const ResourceSpec& resources) {
    const int each = resources.ranks_of_each_launcher ? 1 : tasks;
    if (!asked || *asked == each)
        return tasks;
    if (resources.ranks_of_each_launcher)
        refuse(fmt::format("srun started {} tasks on this node and --nproc-per-node {} asks each "
                           "for {} ranks: {} "
                           "processes",
                           tasks, *asked, *asked, static_cast<long long>(tasks) * *asked),
               "leave it out, or start one task a node with --ntasks-per-node=1");
    refuse(fmt::format("srun started {} tasks on this node, and the spec asks for {} ranks a node",
                       tasks, *asked),
           "leave resource_management.ranks_per_node out, or start one task a node with "
           "--ntasks-per-node=1");
}

int count_ranks(const ResourceSpec& resources, int tasks, std::size_t gpu_count,
                std::size_t cpu_count) {
    const std::optional<int> asked = asked_ranks(resources, gpu_count, cpu_count);
    const int ranks = tasks > 1 ? ranks_of_tasks(tasks, asked, resources)
                                : asked.value_or(gpu_count > 0 ? static_cast<int>(gpu_count) : 1);
    if (ranks < 1 || ranks > kMostRanksPerNode)
        refuse(fmt::format("{} ranks a node", ranks),
               fmt::format("give a number from 1 to {}", kMostRanksPerNode));
    return ranks;
}

int count_nodes(const JobSpec& spec, const Allocation& allocation) {
    const int asked = spec.resources.nodes;
    const int given = static_cast<int>(allocation.node_names.size());
    if (asked > given)
        refuse(fmt::format("{} nodes are asked for, but the {} allocation has {}", asked,
                           allocation.source, given),
               "ask the scheduler for as many, or lower resource_management.nodes");
    return given;
}

}  // namespace

JobShape decide_shape(const JobSpec& spec, const Allocation& allocation,
                      const NodeTopology& topology) {
    JobShape shape;
    shape.nodes = count_nodes(spec, allocation);
    const UsableGpus gpus = choose_usable_gpus(topology, allocation, spec.resources);
    shape.ranks_here = count_ranks(spec.resources, allocation.tasks_on_node.value_or(1),
                                   gpus.positions.size(), topology.allowed_cpus.size());
    return shape;
}

}  // namespace autolaunch::launcher
