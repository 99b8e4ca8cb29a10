#include "plan/launch_plan.hpp"

#include "base/text.hpp"
#include "plan/rank_environment.hpp"
#include "plan/unused_settings.hpp"
#include "plan/usable_gpus.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <filesystem>

namespace autolaunch::launcher {
namespace {

constexpr int kMostRanksPerNode = 4096;

[[noreturn]] void refuse(const std::string& what, std::string hint) {
    throw Error(ErrorCode::invalid_argument, what, std::move(hint));
}

std::string absolute(const std::string& path, const std::string& current_dir) {
    const auto whole = (std::filesystem::path(current_dir) / path).lexically_normal();
    return whole.has_filename() ? whole.string() : whole.parent_path().string();
}

std::vector<std::string> command_line(const TrainerSpec& trainer) {
    std::vector<std::string> argv;
    if (!trainer.module.empty()) argv = {"python", "-m", trainer.module};
    argv.insert(argv.end(), trainer.command.begin(), trainer.command.end());
    if (argv.empty()) refuse("there is nothing to run", "set trainer.command, or give a program after the options");
    return argv;
}

std::string program_name(const TrainerSpec& trainer) {
    if (!trainer.module.empty()) return trainer.module;
    return std::filesystem::path(trainer.command.front()).stem().string();
}

int count_ranks(const ResourceSpec& resources, std::size_t gpu_count, std::size_t cpu_count) {
    int ranks = 0;
    switch (resources.ranks_mode) {
        case RanksPerNode::unset:
            ranks = gpu_count > 0 ? static_cast<int>(gpu_count) : 1;
            break;
        case RanksPerNode::automatic:
            ranks = static_cast<int>(gpu_count > 0 ? gpu_count : cpu_count);
            break;
        case RanksPerNode::cpu:
            ranks = static_cast<int>(cpu_count);
            break;
        case RanksPerNode::fixed:
            ranks = resources.ranks_per_node;
            break;
        case RanksPerNode::gpu:
            if (gpu_count == 0)
                refuse("one rank a GPU is asked for, but no GPU can be used here",
                       "give a number of ranks, or `cpu` for one a CPU");
            ranks = static_cast<int>(gpu_count);
    }
    if (ranks < 1 || ranks > kMostRanksPerNode)
        refuse(fmt::format("{} ranks a node", ranks), fmt::format("give a number from 1 to {}", kMostRanksPerNode));
    return ranks;
}

BindingMode parse_binding(const std::string& word) {
    if (const auto mode = binding_mode_from(word)) return *mode;
    refuse(fmt::format("'{}' is no way to bind ranks", word), "use node, exclusive, socket, core-complex or none");
}

// Node count, names and this node's place among them.
void place_nodes(LaunchPlan& plan, const Allocation& allocation) {
    const int asked = plan.spec.resources.nodes;
    const int given = static_cast<int>(allocation.node_names.size());
    plan.node_names = allocation.node_names;
    plan.node_rank = allocation.node_rank;
    plan.tasks_on_node = allocation.tasks_on_node;
    if (allocation.source == "local") {
        plan.node_count = asked;
        plan.node_rank = plan.spec.node_rank.value_or(0);
        if (plan.node_rank < 0 || plan.node_rank >= asked)
            refuse(fmt::format("node rank {} of {} nodes", plan.node_rank, asked), "node ranks count from 0");
        return;
    }
    plan.node_count = given;
    if (asked > given)
        refuse(fmt::format("{} nodes are asked for, but the {} allocation has {}", asked, allocation.source, given),
               "ask the scheduler for as many, or lower resources.nodes");
    if (asked > 1 && asked < given)
        plan.warnings.push_back(fmt::format("{} nodes are asked for, all {} of the allocation are used", asked, given));
}

void name_run(LaunchPlan& plan, const Allocation& allocation, const std::string& current_dir,
              const std::string& now_text) {
    const JobSpec& spec = plan.spec;
    std::string unique = allocation.job_id.empty() ? now_text : allocation.job_id;
    if (unique.ends_with(".0")) unique.resize(unique.size() - 2);  // a job's only step, as a rule
    plan.job_name = !spec.name.empty()             ? spec.name
                    : !spec.slurm.job_name.empty() ? spec.slurm.job_name
                                                   : program_name(spec.trainer);
    plan.run_id = spec.run_id.empty() ? unique : spec.run_id;
    const std::string parent = spec.monitoring.log_path.empty() ? "runs" : spec.monitoring.log_path;
    plan.run_dir = absolute(spec.run_dir.empty() ? parent + "/" + unique : spec.run_dir, current_dir);
    plan.workdir = absolute(spec.trainer.workdir, current_dir);
}

void check_cores(LaunchPlan& plan, std::size_t core_count) {
    const auto wanted = plan.spec.resources.cpu_cores_per_gpu;
    if (!wanted || plan.gpu_count == 0) return;
    const std::size_t needed = static_cast<std::size_t>(*wanted) * static_cast<std::size_t>(plan.gpu_count);
    if (needed > core_count)
        plan.warnings.push_back(fmt::format("{} cores a GPU are asked for, {} in all, but {} may be used here", *wanted,
                                            needed, core_count));
}

// What NCCL will find: the spec over the environment.
EnvironmentMap settings_of_user(const JobSpec& spec, const EnvironmentMap& environment) {
    EnvironmentMap found = environment;
    for (const auto* section : {&spec.nccl.env, &spec.trainer.env})
        for (const auto& [name, value] : *section) found[name] = value;
    return found;
}

NcclEnvironment plan_nccl(const LaunchPlan& plan, const NodeTopology& topology, const Allocation& allocation,
                          const EnvironmentMap& environment) {
    if (plan.gpu_count == 0) return {};
    auto nccl = decide_nccl_environment(topology, allocation, settings_of_user(plan.spec, environment));
    if (!plan.spec.nccl.manage) nccl.set.clear();
    for (VariableChoice& kept : nccl.kept) {
        if (plan.spec.trainer.env.contains(kept.name)) {
            kept.reason = "from trainer.env";
        } else if (plan.spec.nccl.env.contains(kept.name)) {
            kept.reason = "from nccl.env";
        } else {
            kept.reason = "from your environment";
        }
    }
    return nccl;
}

}  // namespace

LaunchPlan make_plan(const JobSpec& spec, const Allocation& allocation, const NodeTopology& topology,
                     const EnvironmentMap& environment, const std::string& current_dir, const std::string& now_text) {
    LaunchPlan plan;
    plan.spec = spec;
    const auto argv = command_line(spec.trainer);
    place_nodes(plan, allocation);
    name_run(plan, allocation, current_dir, now_text);
    plan.hostname = topology.hostname;
    plan.numa_node_count = static_cast<int>(topology.numa_nodes.size());
    plan.binding_mode = parse_binding(spec.resources.binding);
    plan.warnings.insert(plan.warnings.end(), topology.notes.begin(), topology.notes.end());

    const UsableGpus gpus = choose_usable_gpus(topology, allocation, spec.resources);
    plan.warnings.insert(plan.warnings.end(), gpus.warnings.begin(), gpus.warnings.end());
    plan.gpu_count = static_cast<int>(gpus.positions.size());
    plan.gpu_mask = gpus.mask;
    check_cores(plan, topology.cores.size());
    if (const auto unused = unused_settings(spec); !unused.empty())
        plan.warnings.push_back("no effect in this version: " + join(unused, ", "));
    const int local_ranks = count_ranks(spec.resources, gpus.positions.size(), topology.allowed_cpus.size());
    plan.world_size = local_ranks * plan.node_count;
    plan.nccl = plan_nccl(plan, topology, allocation, environment);

    BindingPlan binding = bind_ranks(topology, gpus.positions, local_ranks, plan.binding_mode);
    plan.warnings.insert(plan.warnings.end(), binding.warnings.begin(), binding.warnings.end());
    for (int local_rank = 0; local_rank < local_ranks; ++local_rank) {
        RankPlan rank;
        rank.local_rank = local_rank;
        rank.rank = plan.node_rank * local_ranks + local_rank;
        rank.argv = argv;
        rank.binding = std::move(binding.ranks[static_cast<std::size_t>(local_rank)]);
        if (rank.binding.gpu) {
            const int position = gpus.positions[static_cast<std::size_t>(*rank.binding.gpu)];
            rank.gpu = topology.gpus[static_cast<std::size_t>(position)];
        }
        plan.ranks.push_back(std::move(rank));
    }
    for (RankPlan& rank : plan.ranks) rank.environment = planned_environment(plan, rank, environment);
    for (std::string& warning : overridden_contract(spec.trainer.env)) plan.warnings.push_back(std::move(warning));
    return plan;
}

void check_runnable(const LaunchPlan& plan) {
    if (plan.node_count > 1) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("multi-node runs are not supported yet, and this one has {} nodes", plan.node_count),
                    "`autolaunch plan` shows the placement; run on one node");
    }
    if (plan.tasks_on_node.value_or(1) > 1) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("srun started {} autolaunch processes on this node, one is enough", *plan.tasks_on_node),
            "use srun --ntasks-per-node=1; autolaunch starts the ranks");
    }
}

std::string describe_placement(const LaunchPlan& plan) {
    const auto plural = [](int count, const char* noun) {
        return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
    };
    return fmt::format("{} of {} ranks here · mode {} · {} · {}", plan.ranks.size(), plan.world_size,
                       binding_mode_name(plan.binding_mode), plural(plan.numa_node_count, "NUMA node"),
                       plan.gpu_count == 0 ? "no GPUs" : plural(plan.gpu_count, "GPU"));
}

}  // namespace autolaunch::launcher
