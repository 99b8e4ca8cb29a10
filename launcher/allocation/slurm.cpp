#include "allocation/adapters.hpp"
#include "allocation/slurm_nodes.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {
namespace {

// SLURM_TOPOLOGY_ADDR is "spine.leaf.node7", and SLURM_TOPOLOGY_ADDR_PATTERN says what the parts
// are: "switch.switch.node", "block.node", or just "node" where Slurm knows no topology. A node's
// name may have dots itself.
std::string read_topology_address(const EnvironmentMap& environment) {
    const std::string address = lookup(environment, "SLURM_TOPOLOGY_ADDR").value_or("");
    const auto kinds = split(lookup(environment, "SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""), '.');
    const auto parts = split(address, '.');
    if (kinds.size() < 2 || kinds.back() != "node" || parts.size() < kinds.size())
        return {};
    const bool switches_only = std::all_of(kinds.begin(), kinds.end() - 1, [](const auto& kind) {
        return kind == "switch" || kind == "block";
    });
    return switches_only ? address : std::string();
}

// Slurm has an end for every job: a year after the start for one without limit.
std::optional<std::chrono::system_clock::time_point> read_end(const EnvironmentMap& environment) {
    constexpr long long kFirstSpecial = 0xfffffff0, kNoLimit_s = 364LL * 24 * 3600;
    const auto end = lookup_count(environment, "SLURM_JOB_END_TIME");
    const auto start = lookup_count(environment, "SLURM_JOB_START_TIME");
    if (!end || *end == 0 || *end >= kFirstSpecial || (start && *end - *start > kNoLimit_s))
        return std::nullopt;
    return std::chrono::system_clock::from_time_t(static_cast<std::time_t>(*end));
}

}  // namespace

std::string slurm_job_id(const EnvironmentMap& environment) {
    return lookup(environment, "SLURM_JOB_ID").value_or("");
}

void fill_slurm_job(Allocation& allocation, const EnvironmentMap& environment) {
    if (slurm_job_id(environment).empty())
        return;
    allocation.restart_count =
        static_cast<int>(lookup_count(environment, "SLURM_RESTART_COUNT").value_or(0));
    allocation.ends_at = read_end(environment);
}

std::optional<Allocation> read_slurm_allocation(const EnvironmentMap& environment,
                                                const std::string& hostname) {
    const std::string job = slurm_job_id(environment);
    if (job.empty())
        return std::nullopt;

    SlurmNodes nodes =
        read_slurm_nodes(environment, lookup(environment, "SLURMD_NODENAME").value_or(hostname));
    const bool in_step = nodes.step.has_value();

    Allocation allocation;
    allocation.source = "slurm";
    allocation.node_names = std::move(nodes.names);
    allocation.node_rank = nodes.node_rank;
    allocation.job_id = in_step ? fmt::format("{}.{}", job, *nodes.step) : job;
    allocation.tasks_on_node =
        nodes.tasks_on_node.value_or(1);  // a batch script runs once, whatever the job asked for
    if (in_step)
        allocation.local_task =
            static_cast<int>(lookup_count(environment, "SLURM_LOCALID").value_or(0));
    allocation.on_every_node = in_step || allocation.node_names.size() == 1;
    allocation.topology_address = read_topology_address(environment);
    fill_slurm_job(allocation, environment);
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
