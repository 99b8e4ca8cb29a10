#include "plan/task_variables.hpp"

#include "allocation/hostlist.hpp"
#include "base/environment.hpp"
#include "base/text.hpp"
#include "plan/mpi_variables.hpp"
#include "session/environment.hpp"
#include "session/nesting.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace autolaunch::launcher {
namespace {

/// What a variable counts.
enum class Count { rank, local_rank, node, ranks, local_ranks, nodes };

struct TaskVariable {
    const char* name;
    Count count;
};

// Always set in a job of Slurm: what srun sets, and a batch script has only in part.
constexpr std::array<TaskVariable, 8> kOfSlurm = {{
    {"SLURM_PROCID", Count::rank},
    {"SLURM_LOCALID", Count::local_rank},
    {"SLURM_NODEID", Count::node},
    {"SLURM_NTASKS", Count::ranks},
    {"SLURM_NPROCS", Count::ranks},
    {"SLURM_NNODES", Count::nodes},
    {"SLURM_STEP_NUM_TASKS", Count::ranks},
    {"SLURM_STEP_NUM_NODES", Count::nodes},
}};

// Corrected where another launcher has set them, and never made up.
constexpr std::array<TaskVariable, 26> kOfOthers = {{
    {"OMPI_COMM_WORLD_RANK", Count::rank},
    {"OMPI_COMM_WORLD_SIZE", Count::ranks},
    {"OMPI_COMM_WORLD_LOCAL_RANK", Count::local_rank},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", Count::local_ranks},
    {"OMPI_COMM_WORLD_NODE_RANK", Count::local_rank},
    {"OMPI_UNIVERSE_SIZE", Count::ranks},
    {"MPI_LOCALRANKID", Count::local_rank},
    {"MPI_LOCALNRANKS", Count::local_ranks},
    {"MV2_COMM_WORLD_RANK", Count::rank},
    {"MV2_COMM_WORLD_SIZE", Count::ranks},
    {"MV2_COMM_WORLD_LOCAL_RANK", Count::local_rank},
    {"MV2_COMM_WORLD_LOCAL_SIZE", Count::local_ranks},
    {"PALS_RANKID", Count::rank},
    {"PALS_LOCAL_RANKID", Count::local_rank},
    {"PALS_LOCAL_SIZE", Count::local_ranks},
    {"PALS_NODEID", Count::node},
    {"PALS_SIZE", Count::ranks},
    {"ALPS_APP_PE", Count::rank},
    {"FLUX_TASK_RANK", Count::rank},
    {"FLUX_TASK_LOCAL_ID", Count::local_rank},
    {"FLUX_JOB_SIZE", Count::ranks},
    {"FLUX_JOB_NNODES", Count::nodes},
    {"JSM_NAMESPACE_RANK", Count::rank},
    {"JSM_NAMESPACE_SIZE", Count::ranks},
    {"JSM_NAMESPACE_LOCAL_RANK", Count::local_rank},
    {"JSM_NAMESPACE_LOCAL_SIZE", Count::local_ranks},
}};

// Options of the agent's srun that are not the ranks': how it laid out its own tasks.
constexpr std::array<std::string_view, 8> kOfAgentsTask = {
    "SLURM_TASK_PID",       "SLURM_DIST_PLANESIZE",    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE",
    "SLURM_TRES_PER_TASK",  "SLURM_NTASKS_PER_BOARD"};

long long value_of_count(Count count, const LaunchPlan& plan, const RankPlan& rank) {
    switch (count) {
        case Count::rank:
            return rank.rank;
        case Count::local_rank:
            return rank.local_rank;
        case Count::node:
            return plan.group_rank;
        case Count::ranks:
            return plan.world_size;
        case Count::local_ranks:
            return static_cast<long long>(plan.ranks.size());
        case Count::nodes:
            return plan.node_count;
    }
    return 0;
}

/// "4(x2),3" of {4, 4, 3}.
std::string counts_text(const std::vector<int>& counts) {
    std::vector<std::string> groups;
    for (std::size_t from = 0; from < counts.size();) {
        std::size_t to = from;
        while (to < counts.size() && counts[to] == counts[from])
            ++to;
        groups.push_back(to - from == 1 ? std::to_string(counts[from])
                                        : fmt::format("{}(x{})", counts[from], to - from));
        from = to;
    }
    return join(groups, ",");
}

/// Ranks of this node, "4,5,6,7".
std::string global_ranks(const LaunchPlan& plan) {
    std::vector<std::string> ranks;
    for (const RankPlan& rank : plan.ranks)
        ranks.push_back(std::to_string(rank.rank));
    return join(ranks, ",");
}

// In the order of node ranks; nothing where a node's name is none of Slurm's.
std::optional<std::string> node_list(const LaunchPlan& plan, const EnvironmentMap& inherited) {
    if (plan.node_count == 1) {
        const std::string name = value_of(inherited, "SLURMD_NODENAME");
        return name.empty() ? plan.hostname : name;
    }
    if (plan.slurm_job_id.empty())
        return std::nullopt;
    try {
        return compress_hostlist(plan.node_names);
    } catch (const Error&) {
        return std::nullopt;
    }
}

// Of what the agent's own tasks have together on this node, a rank's share.
std::optional<long long> share_of_rank(const LaunchPlan& plan, const EnvironmentMap& inherited,
                                       const char* variable) {
    long long of_task = 0;
    if (!parse_integer(value_of(inherited, variable), of_task) || of_task < 1)
        return std::nullopt;
    const auto ranks = static_cast<long long>(std::max<std::size_t>(plan.ranks.size(), 1));
    return std::max(1LL, of_task * plan.tasks_here / ranks);
}

// An srun that a rank starts takes SLURM_NTASKS for its -n, and is refused so many on so few CPUs.
bool exceeds_cpus(const LaunchPlan& plan, const EnvironmentMap& inherited) {
    long long cpus = 0;
    return parse_integer(value_of(inherited, "SLURM_CPUS_ON_NODE"), cpus) &&
           cpus < static_cast<long long>(plan.ranks.size());
}

void add_slurm(std::vector<VariableChoice>& choices, const LaunchPlan& plan, const RankPlan& rank,
               const EnvironmentMap& inherited) {
    const auto add = [&](const char* name, std::string value, const char* reason) {
        choices.push_back({name, std::move(value), reason});
    };
    constexpr const char* kAsSrun = "as srun tells a task, for programs that ask Slurm";
    for (const TaskVariable& variable : kOfSlurm)
        add(variable.name, std::to_string(value_of_count(variable.count, plan, rank)), kAsSrun);
    add("SLURM_GTIDS", global_ranks(plan), kAsSrun);
    if (const std::string counts = counts_text(plan.ranks_per_node); !counts.empty()) {
        add("SLURM_TASKS_PER_NODE", counts, kAsSrun);
        add("SLURM_STEP_TASKS_PER_NODE", counts, kAsSrun);
    }
    if (auto list = node_list(plan, inherited); list && !list->empty())
        add("SLURM_STEP_NODELIST", std::move(*list), kAsSrun);
    for (const char* name : {"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK"})
        if (const auto share = share_of_rank(plan, inherited, name))
            add(name, std::to_string(*share), "the rank's share of what the task has");
    const bool alike = std::all_of(plan.ranks_per_node.begin(), plan.ranks_per_node.end(),
                                   [&](int ranks) { return ranks == plan.ranks_per_node[0]; });
    if (alike && !plan.ranks_per_node.empty())
        add("SLURM_NTASKS_PER_NODE", std::to_string(plan.ranks_per_node[0]), kAsSrun);
    if (exceeds_cpus(plan, inherited))
        add("SLURM_OVERCOMMIT", "1", "more ranks than CPUs: as srun --overcommit tells a task");
    if (inherited.contains("SLURM_DISTRIBUTION"))
        add("SLURM_DISTRIBUTION", "block", "ranks fill node after node");
}

bool is_of_an_mpi_server(std::string_view name, const EnvironmentMap& inherited) {
    return is_of_mpi_server(name) ||
           (inherited.contains("OMPI_COMM_WORLD_SIZE") && is_of_mpirun_daemon(name));
}

}  // namespace

std::vector<VariableChoice> task_variables(const LaunchPlan& plan, const RankPlan& rank,
                                           const EnvironmentMap& inherited) {
    std::vector<VariableChoice> choices;
    if (inherited.contains("SLURM_JOB_ID") || inherited.contains("SLURM_PROCID"))
        add_slurm(choices, plan, rank, inherited);
    for (const TaskVariable& variable : kOfOthers)
        if (inherited.contains(variable.name))
            choices.push_back({variable.name,
                               std::to_string(value_of_count(variable.count, plan, rank)),
                               "the rank's own, in place of the launcher's"});
    if (const std::string above = launchers_above(inherited); !above.empty())
        choices.push_back({env::kWithin, above, "for launchers that the rank starts"});
    return choices;
}

bool is_of_agent_alone(std::string_view name, const LaunchPlan& plan,
                       const EnvironmentMap& inherited) {
    const bool one_rank_a_task = plan.tasks_here == static_cast<int>(plan.ranks.size());
    return (!one_rank_a_task && is_of_an_mpi_server(name, inherited)) ||
           std::find(kOfAgentsTask.begin(), kOfAgentsTask.end(), name) != kOfAgentsTask.end();
}

}  // namespace autolaunch::launcher
