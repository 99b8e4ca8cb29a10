#include "stopping/exclusion.hpp"

#include "allocation/hostlist.hpp"
#include "stopping/scontrol_line.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace autolaunch::launcher {

namespace {

using Hosts = std::set<std::string>;

// Nothing: it is no list that we can read.
std::optional<Hosts> hosts_of(const std::string& list) {
    if (list.empty())
        return Hosts();
    try {
        const auto names = expand_hostlist(list);
        return Hosts(names.begin(), names.end());
    } catch (const Error&) {
        return std::nullopt;
    }
}

// Of the job's partition; the job ran on one, whatever it had named.
std::optional<Hosts> nodes_of_partition(std::string_view answer, const std::string& name) {
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        const std::string nodes = scontrol_field(line, "Nodes");
        if (scontrol_field(line, "PartitionName") == name && !nodes.empty() && nodes != "(null)")
            return hosts_of(nodes);
    }
    return std::nullopt;
}

std::size_t count_left(const Hosts& all, const Hosts& excluded) {
    std::size_t left = all.size();
    for (const std::string& name : excluded)
        left -= all.contains(name) ? 1 : 0;
    return left;
}

}  // namespace

Exclusion choose_exclusion(const std::map<std::string, std::string>& unfit,
                           const SlurmJobRecord& record, std::string_view partition) {
    Exclusion choice;
    auto excluded = hosts_of(record.excluded);
    const auto required = hosts_of(record.required);
    const auto all = nodes_of_partition(partition, record.partition);
    bool changed = false;
    for (const auto& [name, why] : unfit) {
        if (excluded && excluded->contains(name))
            continue;
        std::string stays;
        if (!excluded || !required || !all || record.nodes == 0) {
            stays = "Slurm does not show which others the job could have";
        } else if (required->contains(name)) {
            stays = "the job asks for it by name (--nodelist)";
        } else {
            Hosts more = *excluded;
            more.insert(name);
            if (count_left(*all, more) < static_cast<std::size_t>(record.nodes))
                stays = fmt::format("partition {} has {} node{} besides, and the job needs {}",
                                    record.partition, count_left(*all, more),
                                    count_left(*all, more) == 1 ? "" : "s", record.nodes);
            else
                excluded = std::move(more);
        }
        changed = changed || stays.empty();
        if (!stays.empty())
            choice.kept.insert(name);
        choice.lines.push_back(
            stays.empty() ? fmt::format("requeue without {}: {}", name, why)
                          : fmt::format("{} is not excluded, although {}: {}", name, why, stays));
    }
    if (changed)
        choice.list =
            compress_hostlist(std::vector<std::string>(excluded->begin(), excluded->end()));
    return choice;
}

std::string nodes_to_keep(const SlurmJobRecord& record, const std::set<std::string>& gone) {
    const auto allocated = hosts_of(record.allocated);
    if (!allocated)
        return {};
    std::vector<std::string> kept;
    for (const std::string& name : *allocated)
        if (!gone.contains(name) || name == record.batch_host)
            kept.push_back(name);
    return kept.empty() || kept.size() == allocated->size() ? "" : compress_hostlist(kept);
}

std::vector<std::string> shrink_command(const std::string& job_id, const std::string& list) {
    return {"env",
            "-u",
            "SLURM_JOB_ID",
            "-u",
            "SLURM_JOBID",
            "scontrol",
            "update",
            "JobId=" + job_id,
            "NodeList=" + list};
}

std::vector<std::string> exclusion_command(const std::string& name, const std::string& list) {
    return {"scontrol", "update", "JobId=" + name, "ExcNodeList=" + list};
}

}  // namespace autolaunch::launcher
