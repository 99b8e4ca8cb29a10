#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace autolaunch::launcher {
namespace {

struct HostList {
    std::string variable;
    std::vector<std::string> hosts;
};

// Volcano's svc plugin tells every pod the pods of each task of the job: VC_WORKER_HOSTS is
// "job-worker-0.job,job-worker-1.job", and so on for each task's name.
std::vector<HostList> read_lists(const EnvironmentMap& environment) {
    std::vector<HostList> lists;
    for (const auto& [name, value] : environment) {
        if (!name.starts_with("VC_") || !name.ends_with("_HOSTS"))
            continue;
        HostList list{name, {}};
        for (const auto& host : split(value, ','))
            if (const auto word = trim(host); !word.empty())
                list.hosts.emplace_back(word);
        if (!list.hosts.empty())
            lists.push_back(std::move(list));
    }
    return lists;
}

std::string name_lists(const std::vector<HostList>& lists) {
    std::vector<std::string> names;
    for (const HostList& list : lists)
        names.push_back(fmt::format("{} ({})", list.variable, list.hosts.size()));
    return join(names, ", ");
}

}  // namespace

std::optional<Allocation> read_volcano_allocation(const EnvironmentMap& environment,
                                                  const std::string& hostname,
                                                  const NodeOptions& options) {
    auto index = lookup_count(environment, "VC_TASK_INDEX");
    if (!index)
        index = lookup_count(environment, "VK_TASK_INDEX");
    const auto lists = read_lists(environment);
    if (!index || lists.empty() || (options.nodes_given && options.nodes == 1))
        return std::nullopt;
    if (lists.size() > 1) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("the pods of this Volcano job are of several tasks: {}. Nothing says which "
                        "of them train together",
                        name_lists(lists)),
            "give --nnodes, --node-rank and --master-addr on every pod; where this one really is "
            "alone, say --standalone");
    }
    const auto& [variable, hosts] = lists.front();
    const auto position = static_cast<std::size_t>(*index);
    const int asked = all_nodes(options);  // of a range all that may come: the task's replicas
    if (hosts.size() > kMaxHosts || position >= hosts.size() ||
        find_host(hosts, hostname).value_or(position) != position ||
        (asked > 1 && static_cast<std::size_t>(asked) != hosts.size())) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("VC_TASK_INDEX={} on {}, {} with {} pods, and {} node{} asked for: "
                        "they do not agree",
                        *index, hostname, variable, hosts.size(), asked, asked == 1 ? "" : "s"),
            "leave --nnodes out, or give --nnodes, --node-rank and --master-addr on every "
            "pod");
    }
    Allocation allocation;
    allocation.source = "volcano";
    allocation.node_names = hosts;
    allocation.node_rank = static_cast<int>(position);
    allocation.keeps_node_order = true;
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
