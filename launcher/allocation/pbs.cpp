#include "allocation/adapters.hpp"
#include "allocation/host_files.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

// "4711" of "4711.server", "4711_3" of the array element "4711[3].server".
std::string short_job_id(std::string id) {
    id.resize(std::min(id.find('.'), id.size()));
    std::replace(id.begin(), id.end(), '[', '_');
    std::erase(id, ']');
    return id;
}

}  // namespace

std::optional<Allocation> read_pbs_allocation(const EnvironmentMap& environment,
                                              const std::string& hostname,
                                              const FileReader& read_text) {
    const auto job = lookup(environment, "PBS_JOBID");
    if (!job || job->empty())
        return std::nullopt;
    const auto path = lookup(environment, "PBS_NODEFILE");
    if (!path || path->empty()) {
        throw Error(ErrorCode::invalid_argument, "PBS_JOBID is set, but PBS_NODEFILE is not",
                    "start with mpirun, or give --nnodes, --node-rank and --master-addr; outside a "
                    "job, say --standalone");
    }
    Allocation allocation = allocation_of_hosts(
        "pbs", hosts_in_file("PBS_NODEFILE", *path, read_text), hostname, "PBS_NODEFILE");
    allocation.job_id = short_job_id(*job);
    // Task 1 is the batch script; what it starts with pbsdsh counts on, what it starts with ssh has
    // no such variable.
    const bool is_script = lookup_count(environment, "PBS_TASKNUM") == 1;
    allocation.on_every_node = !is_script || allocation.node_names.size() == 1;
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
