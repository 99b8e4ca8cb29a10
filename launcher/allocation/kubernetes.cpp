#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr const char* kGiveAddress =
    "give --master-addr=HOST, where pod 0 can be reached, on every pod";

// "train" of "train-3", where 3 is the pod's index: an indexed Job names its pods' hosts so. Empty:
// something else did.
std::string job_of_host(const std::string& hostname, long long index) {
    const std::string short_name = hostname.substr(0, hostname.find('.'));
    const std::string ending = fmt::format("-{}", index);
    if (short_name.size() <= ending.size() || !short_name.ends_with(ending))
        return {};
    return short_name.substr(0, short_name.size() - ending.size());
}

// The kubelet writes the pod's own name with the headless service's domain into /etc/hosts:
// "10.1.0.7 train-3.workers.default.svc.cluster.local train-3". Empty: the pod has no such service.
std::string domain_of_pod(const std::string& hostname, const FileReader& read_text) {
    const std::string short_name = hostname.substr(0, hostname.find('.')) + '.';
    for (const auto& line : split(read_text("/etc/hosts"), '\n')) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string address, name;
        words >> address;
        while (words >> name)
            if (name.starts_with(short_name))
                return name.substr(short_name.size());
    }
    return {};
}

// Where pod 0 is: what the user or the operator says, else its name in the headless service.
std::string find_head(const EnvironmentMap& environment, const std::string& hostname,
                      const std::string& job, const NodeOptions& options,
                      const FileReader& read_text) {
    if (!options.head_address.empty())
        return options.head_address;
    if (const auto given = lookup(environment, "MASTER_ADDR"); given && !given->empty())
        return *given;
    if (job.empty()) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format(
                "this pod's host name, {}, is not that of an indexed Job, so pod 0 cannot be named",
                hostname),
            kGiveAddress);
    }
    const std::string domain = domain_of_pod(hostname, read_text);
    if (domain.empty()) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format(
                "this pod, {}, has no domain in /etc/hosts, so other pods cannot be found by name",
                hostname),
            fmt::format("make a headless Service and name it as `subdomain` in the Job's pod "
                        "template (a JobSet "
                        "does both), or {}",
                        kGiveAddress));
    }
    return fmt::format("{}-0.{}", job, domain);
}

struct PodIndex {
    long long index = 0, pods = 1;
    std::string from;
};

// An indexed Job's pod knows its index, not how many there are: --nnodes says that. Kubeflow's
// PyTorchJob gives both, to the pod and not to a rank, which has LOCAL_RANK besides.
std::optional<PodIndex> read_index(const EnvironmentMap& environment, const NodeOptions& options) {
    if (const auto index = lookup_count(environment, "JOB_COMPLETION_INDEX"))
        return PodIndex{*index, all_nodes(options), "JOB_COMPLETION_INDEX"};
    for (const char* variable : {"KUBERNETES_SERVICE_HOST", "MASTER_ADDR", "RANK", "WORLD_SIZE"})
        if (!lookup(environment, variable))
            return std::nullopt;
    if (lookup(environment, "LOCAL_RANK"))
        return std::nullopt;
    const long long pods =
        all_nodes(options) > 1 ? all_nodes(options) : *lookup_count(environment, "WORLD_SIZE");
    return PodIndex{*lookup_count(environment, "RANK"), pods, "RANK"};
}

}  // namespace

std::optional<Allocation> read_kubernetes_allocation(const EnvironmentMap& environment,
                                                     const std::string& hostname,
                                                     const NodeOptions& options,
                                                     const FileReader& read_text) {
    const auto pod = read_index(environment, options);
    if (!pod)
        return std::nullopt;
    Allocation allocation;
    allocation.source = "kubernetes";
    fill_granted_gpus(allocation, environment);
    if (pod->pods <= 1) {  // each pod is a job of its own
        allocation.node_names = {hostname};
        return allocation;
    }
    if (pod->index >= pod->pods || pod->pods > static_cast<long long>(kMaxHosts)) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}={}, but the job has {} nodes", pod->from, pod->index, pod->pods),
            "give --nnodes the number of pods that work together: the Job's `completions`");
    }
    const std::string job = pod->from == "RANK" ? std::string() : job_of_host(hostname, pod->index);
    allocation.head_address = find_head(environment, hostname, job, options, read_text);
    allocation.node_names = nameless_nodes(static_cast<int>(pod->pods));
    if (!job.empty())
        for (std::size_t i = 0; i < allocation.node_names.size(); ++i)
            allocation.node_names[i] = fmt::format("{}-{}", job, i);
    allocation.node_rank = static_cast<int>(pod->index);
    allocation.node_names[static_cast<std::size_t>(pod->index)] = hostname;
    allocation.keeps_node_order = true;
    return allocation;
}

}  // namespace autolaunch::launcher
