#include "allocation/adapters.hpp"
#include "allocation/host_files.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace autolaunch::launcher {
namespace {

// "hostA 8 hostB 8": hosts and their slots.
std::vector<std::string> hosts_with_slots(const std::string& text) {
    std::vector<std::string> hosts;
    std::istringstream words(text);
    for (std::string host, slots; words >> host;) {
        long long count = 0;
        if (!(words >> slots) || !parse_integer(slots, count) || count < 1) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("LSB_MCPU_HOSTS: no number of slots after '{}'", host),
                        "LSF sets it to \"hostA 8 hostB 8\"; give --nnodes, --node-rank and "
                        "--master-addr instead");
        }
        hosts.push_back(std::move(host));
    }
    return hosts;
}

}  // namespace

std::optional<Allocation> read_lsf_allocation(const EnvironmentMap& environment,
                                              const std::string& hostname,
                                              const FileReader& read_text) {
    const auto job = lookup_count(environment, "LSB_JOBID");
    if (!job)
        return std::nullopt;
    std::string from = "LSB_MCPU_HOSTS";
    std::vector<std::string> hosts = hosts_with_slots(lookup(environment, from).value_or(""));
    if (hosts.empty()) {  // LSF leaves it out where it would be too long
        from = "LSB_DJOB_HOSTFILE";
        const auto path = lookup(environment, from);
        if (!path || path->empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "LSB_JOBID is set, but neither LSB_MCPU_HOSTS nor LSB_DJOB_HOSTFILE",
                        "start with blaunch; outside a job, say --standalone");
        }
        hosts = hosts_in_file(from, *path, read_text);
    }
    Allocation allocation = allocation_of_hosts("lsf", hosts, hostname, from);
    const long long element = lookup_count(environment, "LSB_JOBINDEX").value_or(0);
    allocation.job_id = element > 0 ? fmt::format("{}_{}", *job, element) : std::to_string(*job);
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
