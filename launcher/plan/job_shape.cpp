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

int check_ranks(int ranks) {
    if (ranks < 1 || ranks > kMostRanksPerNode)
        refuse(fmt::format("{} ranks a node", ranks),
               fmt::format("give a number from 1 to {}", kMostRanksPerNode));
    return ranks;
}

int count_ranks(const ResourceSpec& resources, int tasks, std::size_t gpu_count,
                std::size_t cpu_count) {
    const std::optional<int> asked = asked_ranks(resources, gpu_count, cpu_count);
    const int ranks = tasks > 1 ? ranks_of_tasks(tasks, asked, resources)
                                : asked.value_or(gpu_count > 0 ? static_cast<int>(gpu_count) : 1);
    return check_ranks(ranks);
}

// -np counts the ranks of all nodes: the first nodes have one more where it does not go up.
int share_of_total(int total, const Allocation& allocation) {
    const int nodes = static_cast<int>(allocation.node_names.size());
    if (total < nodes)
        refuse(fmt::format("{} ranks are asked for in all, on {} nodes", total, nodes),
               "each node has a rank at least: ask for as many ranks, or for fewer nodes");
    const int more = total % nodes;
    if (allocation.numbered_by_arrival && more != 0)
        refuse(fmt::format("{} ranks in all cannot be spread evenly over {} nodes, and none of "
                           "these has a number yet",
                           total, nodes),
               "say with -n how many each node has");
    return total / nodes + (allocation.node_rank < more ? 1 : 0);
}

// Ranks that are counted over all nodes would be others where a spare takes over.
void check_spares(const JobSpec& spec) {
    if (spec.resources.spare_nodes > 0 && (spec.resources.total_ranks || !spec.programs.empty()))
        refuse("spare nodes cannot stand in where ranks are counted in all (-np, several programs)",
               "say with ranks_per_node (-n) how many each node has");
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
    check_spares(spec);
    const UsableGpus gpus = choose_usable_gpus(topology, allocation, spec.resources);
    const auto total = spec.resources.total_ranks;
    if (total && spec.resources.ranks_mode == RanksPerNode::unset &&
        allocation.tasks_on_node.value_or(1) == 1) {
        shape.ranks_here = check_ranks(share_of_total(*total, allocation));
        return shape;
    }
    shape.ranks_here = count_ranks(spec.resources, allocation.tasks_on_node.value_or(1),
                                   gpus.positions.size(), topology.allowed_cpus.size());
    return shape;
}

}  // namespace autolaunch::launcher
