#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

// Slurm numbers its own steps from here up (batch script, interactive, extern): they are not srun's.
constexpr long long kFirstSpecialStep = 0xfffffff0;

std::string short_name(const std::string& hostname) { return hostname.substr(0, hostname.find('.')); }

std::optional<int> position(const std::vector<std::string>& names, const std::string& name) {
    for (const std::string& candidate : {name, short_name(name)}) {
        const auto found = std::find(names.begin(), names.end(), candidate);
        if (found != names.end()) return static_cast<int>(found - names.begin());
    }
    return std::nullopt;
}

struct NodeList {
    std::string variable;
    std::vector<std::string> names;
    std::optional<int> node_rank;  // nothing: this machine is not in it
};

NodeList read_node_list(const EnvironmentMap& environment, const std::string& variable, const std::string& node_name) {
    const auto value = lookup(environment, variable);
    if (!value || value->empty()) return {variable, {}, std::nullopt};
    try {
        auto names = expand_hostlist(*value);
        const auto node_rank = position(names, node_name);
        return {variable, std::move(names), node_rank};
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", variable, error.what()));
    }
}

// The step's list, unless it is another job's (a batch job submitted from inside a step inherits that step's
// variables).
NodeList choose_node_list(const EnvironmentMap& environment, const std::string& node_name) {
    const NodeList step = read_node_list(environment, "SLURM_STEP_NODELIST", node_name);
    if (step.node_rank) return step;
    const NodeList job = read_node_list(environment, "SLURM_JOB_NODELIST", node_name);
    if (job.node_rank) return job;
    const NodeList& named = step.names.empty() ? job : step;
    if (named.names.empty()) {
        throw Error(ErrorCode::invalid_argument, "SLURM_JOB_ID is set, but SLURM_JOB_NODELIST is not",
                    "start with srun; outside a job, unset SLURM_JOB_ID");
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("this machine, {}, is not one of the job's nodes ({}={})", node_name, named.variable,
                            environment.at(named.variable)),
                "start with `srun autolaunch …`; to ignore the job, unset SLURM_JOB_ID");
}

std::optional<long long> srun_step(const EnvironmentMap& environment) {
    const auto step = lookup_count(environment, "SLURM_STEP_ID");
    if (step && *step < kFirstSpecialStep) return step;
    return std::nullopt;
}

int read_tasks_on_node(const EnvironmentMap& environment, int node_rank, bool in_step) {
    if (!in_step) return 1;  // the batch script or an interactive shell runs once, whatever the job asked for
    for (const char* variable : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
        const auto value = lookup(environment, variable);
        if (!value) continue;
        std::vector<int> counts;
        try {
            counts = expand_counts(*value);
        } catch (const Error& error) {
            throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", variable, error.what()));
        }
        if (static_cast<std::size_t>(node_rank) < counts.size()) return counts[static_cast<std::size_t>(node_rank)];
    }
    return 1;
}

}  // namespace

std::optional<Allocation> read_slurm_allocation(const EnvironmentMap& environment, const std::string& hostname) {
    const auto job = lookup(environment, "SLURM_JOB_ID");
    if (!job || job->empty()) return std::nullopt;

    const std::string node_name = lookup(environment, "SLURMD_NODENAME").value_or(hostname);
    NodeList nodes = choose_node_list(environment, node_name);
    const auto step = srun_step(environment);

    Allocation allocation;
    allocation.source = "slurm";
    allocation.node_names = std::move(nodes.names);
    allocation.node_rank = *nodes.node_rank;
    allocation.job_id = step ? fmt::format("{}.{}", *job, *step) : *job;
    allocation.restart_count = static_cast<int>(lookup_count(environment, "SLURM_RESTART_COUNT").value_or(0));
    allocation.tasks_on_node = read_tasks_on_node(environment, allocation.node_rank, step.has_value());
    fill_granted_gpus(allocation, environment);
    if (const auto end = lookup_count(environment, "SLURM_JOB_END_TIME"))
        allocation.ends_at = std::chrono::system_clock::from_time_t(static_cast<std::time_t>(*end));
    return allocation;
}

}  // namespace autolaunch::launcher
