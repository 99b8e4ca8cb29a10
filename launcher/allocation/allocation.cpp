#include "allocation/allocation.hpp"

#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/kill_wait.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "session/nesting.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

std::optional<std::string> lookup(const EnvironmentMap& environment, std::string_view name) {
    const auto found = environment.find(std::string(name));
    if (found == environment.end())
        return std::nullopt;
    return found->second;
}

std::optional<long long> lookup_count(const EnvironmentMap& environment, std::string_view name) {
    const auto value = lookup(environment, name);
    if (!value)
        return std::nullopt;
    long long number = 0;
    if (!parse_integer(*value, number) || number < 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}={} is not a whole number from 0 up", name, *value),
                    "the scheduler sets it; unset it if it is left over from another job");
    }
    return number;
}

int all_nodes(const NodeOptions& options) {
    return std::max(options.nodes, options.most_nodes) + options.spare_nodes;
}

std::vector<std::string> nameless_nodes(int count) {
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(count));
    for (int node_rank = 0; node_rank < count; ++node_rank)
        names.push_back(fmt::format("node-rank-{}", node_rank));
    return names;
}

std::optional<std::size_t> find_host(const std::vector<std::string>& hosts,
                                     const std::string& name) {
    const auto index_of = [&](auto matches) -> std::optional<std::size_t> {
        const auto found = std::find_if(hosts.begin(), hosts.end(), matches);
        if (found == hosts.end())
            return std::nullopt;
        return static_cast<std::size_t>(found - hosts.begin());
    };
    const auto without_domain = [](std::string_view host) {
        return host.substr(0, host.find('.'));
    };
    if (const auto same = index_of([&](const auto& host) { return host == name; }))
        return same;
    return index_of([&](const auto& host) {
        const bool either_is_short =
            host.find('.') == std::string::npos || name.find('.') == std::string::npos;
        return either_is_short && without_domain(host) == without_domain(name);
    });
}

namespace {

// A host file of as many hosts as there may be, and more than any slurm.conf.
constexpr std::size_t kMostFileBytes = std::size_t{64} << 20;

// A rank has its agent's SLURM_* and others, with its own numbers in them: they say nothing of us.
Allocation read_allocation_of_rank(const EnvironmentMap& environment, const std::string& hostname,
                                   const NodeOptions& options) {
    auto meeting = read_meeting_allocation(environment, hostname, options);
    Allocation allocation =
        meeting ? *meeting : read_local_allocation(environment, hostname, options);
    allocation.inside_a_rank = true;
    fill_slurm_job(allocation, environment);
    return allocation;
}

// The first that answers. mpirun before the schedulers: the tasks that a scheduler knows of are
// mpirun's daemons then.
Allocation read_surroundings(const EnvironmentMap& environment, const std::string& hostname,
                             const NodeOptions& options, const FileReader& read_text) {
    if (auto by_person = read_static_allocation(environment, hostname, options))
        return *by_person;
    const ToldBy by = told_last(environment);
    if (by == ToldBy::autolaunch)
        return read_allocation_of_rank(environment, hostname, options);
    // Slurm's tasks below a rank of ours inherit what the rank was told for MPI.
    const bool by_slurm = by == ToldBy::srun || by == ToldBy::sbatch;
    if (auto by_mpirun =
            by_slurm ? std::nullopt : read_mpirun_allocation(environment, hostname, options))
        return *by_mpirun;
    if (auto slurm = read_slurm_allocation(environment, hostname))
        return *slurm;
    // An indexed Job numbers its pods, but not how many of a range there are.
    const bool is_range = options.most_nodes > options.nodes || options.spare_nodes > 0;
    auto meeting = read_meeting_allocation(environment, hostname, options);
    if (meeting && is_range)
        return *meeting;
    if (auto kubernetes = read_kubernetes_allocation(environment, hostname, options, read_text))
        return *kubernetes;
    if (auto volcano = read_volcano_allocation(environment, hostname, options))
        return *volcano;
    if (auto pbs = read_pbs_allocation(environment, hostname, read_text))
        return *pbs;
    if (auto lsf = read_lsf_allocation(environment, hostname, read_text))
        return *lsf;
    if (meeting)
        return *meeting;
    return read_local_allocation(environment, hostname, options);
}

}  // namespace

Allocation read_allocation(const EnvironmentMap& environment, const std::string& hostname,
                           const NodeOptions& options, const FileReader& read_text) {
    if (options.nodes < 1 || options.nodes > static_cast<int>(kMaxHosts))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} nodes are asked for", options.nodes));
    if (options.standalone)
        return read_local_allocation(environment, hostname, {});
    const FileReader read = read_text ? read_text : [](const std::string& path) {
        return read_regular_file(path, kMostFileBytes);
    };
    Allocation allocation = read_surroundings(environment, hostname, options, read);
    if (!slurm_job_id(environment).empty()) {
        KillWaitReading reading = read_kill_wait(environment, read);
        allocation.kill_wait = reading.kill_wait;
        allocation.notes = std::move(reading.notes);
    }
    const bool by_number = allocation.source == "local" || allocation.source == "kubernetes";
    if (by_number && allocation.node_names.size() == 1 && !allocation.inside_a_rank)
        check_is_not_one_of_several(environment, hostname, options, read);
    if (!options.head_address.empty())
        allocation.head_address = options.head_address;
    std::string& first = allocation.node_names[0];
    if (first == nameless_nodes(1)[0] && !allocation.head_address.empty())
        first = allocation.head_address;
    return allocation;
}

void check_runs_on_every_node(const Allocation& allocation) {
    if (allocation.on_every_node || allocation.node_names.size() <= 1)
        return;
    const std::size_t nodes = allocation.node_names.size();
    const bool pbs = allocation.source == "pbs";
    if (pbs || allocation.source == "slurm") {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("the job has {} nodes, but only this one, {}, runs autolaunch: this is its "
                        "batch script "
                        "or a shell",
                        nodes,
                        allocation.node_names[static_cast<std::size_t>(allocation.node_rank)]),
            fmt::format("start with `{} autolaunch …`, or use this node alone with --standalone",
                        pbs ? "mpirun --map-by ppr:1:node" : "srun"));
    }
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} nodes are asked for, but nothing says which of them this one is", nodes),
        "start it with srun or mpirun; or on each node alike with --rdzv-endpoint=HOST:PORT, or "
        "with --node-rank=0, 1, … and --master-addr=HOST, where HOST is the first node");
}

}  // namespace autolaunch::launcher
