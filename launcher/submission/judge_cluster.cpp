#include "submission/judge_cluster.hpp"

#include "allocation/hostlist.hpp"
#include "allocation/slurm_time.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "lint/sbatch_script.hpp"
#include "stopping/requeue.hpp"
#include "stopping/scontrol_line.hpp"
#include "stopping/stop_budget.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace autolaunch::launcher {

namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

std::string time_text(seconds time) {
    const long long all = time.count();
    const std::string clock =
        fmt::format("{}:{:02}:{:02}", all / 3600 % 24, all / 60 % 60, all % 60);
    return all >= 86'400 ? fmt::format("{}-{:0>8}", all / 86'400, clock) : clock;
}

std::string date_text(system_clock::time_point at) {
    const std::time_t whole = system_clock::to_time_t(at);
    std::tm local{};
    ::localtime_r(&whole, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
    return text;
}

std::set<std::string> host_set(const std::string& list) {
    try {
        const auto hosts = expand_hostlist(list);
        return {hosts.begin(), hosts.end()};
    } catch (const Error&) {  // "(null)"
        return {};
    }
}

bool has_word(const std::string& list, const std::string& word) {
    const auto words = split(list, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

class Judge {
public:
    Judge(const SpecResult& read, const BatchRequest& request, const ClusterAnswers& answers,
          std::optional<std::chrono::milliseconds> save, system_clock::time_point now)
        : spec_(read.spec),
          slurm_(read.spec.slurm),
          root_(read.root),
          request_(request),
          answers_(answers),
          sweep_(read.sweep),
          config_(answers.config.value_or("")),
          save_(save),
          now_(now),
          limit_(parse_slurm_time(read.spec.slurm.time_limit)) {
        nodes_ = number_of("nodes").value_or(1);
        gpus_ = number_of("gpus-per-node");
        if (!gpus_)
            gpus_ = gres_gpu_count(slurm_.gres);
    }

    ClusterVerdict take() {
        check_array();
        check_dependencies();
        check_partitions();
        check_accounts();
        check_stops();
        return std::move(verdict_);
    }

private:
    std::optional<long long> number_of(const char* option) const {
        const BatchOption* found = request_.script.option(option);
        return found != nullptr && found->value ? whole_number(*found->value) : std::nullopt;
    }
    SpecError at(const std::string& key, std::string message) const {
        for (const char* section : {"slurm_config", "resource_management"})
            if (const Entry* entry = find_in_spec(root_, section, key))
                return error_at(entry->value.at, std::string(section) + '.' + key,
                                std::move(message));
        return {spec_.spec_file, 0, 0, "slurm_config." + key, std::move(message)};
    }
    void refuse(const std::string& key, std::string message) {
        verdict_.refused.push_back(at(key, std::move(message)));
    }
    void warn(const std::string& key, std::string message) {
        verdict_.warnings.push_back(at(key, std::move(message)));
    }

    struct Asked {
        std::string_view tres;
        std::string key;  ///< of slurm_config
        std::string_view name;
        std::optional<long long> count = {};  ///< of the whole job
    };
    std::vector<Asked> all_asked() const;
    void check_array();
    void check_dependencies();
    void check_partitions();
    void check_partition(const PartitionFacts& partition);
    void check_preemption(const PartitionFacts& partition);
    void check_maintenance(const PartitionFacts& partition, std::optional<seconds> limit);
    void check_accounts();
    void check_limits(const AccountLimits& limits, const std::string& what);
    void check_stops();
    bool enforces(const char* word) const {
        const std::string enforced = config_value(config_, "AccountingStorageEnforce");
        return has_word(enforced, word) || has_word(enforced, "all");
    }

    const JobSpec& spec_;
    const SlurmSpec& slurm_;
    const Value& root_;
    const BatchRequest& request_;
    const ClusterAnswers& answers_;
    const SweepSpec& sweep_;
    std::string config_;
    std::optional<std::chrono::milliseconds> save_;
    system_clock::time_point now_;
    std::optional<seconds> limit_;
    long long nodes_ = 1;
    std::optional<long long> gpus_;  // a node
    ClusterVerdict verdict_;
};

void Judge::check_array() {
    const auto most = whole_number(config_value(config_, "MaxArraySize"));
    if (!request_.array)
        return;
    if (!most)
        verdict_.unknown.push_back("MaxArraySize: how far an array may go");
    else if (request_.array->highest >= *most && sweep_.makes_elements())
        verdict_.refused.push_back(error_at(
            sweep_.at, "sweep",
            fmt::format("makes {} elements, and MaxArraySize of this cluster is {}: no array has "
                        "more",
                        request_.array->count, *most)));
    else if (request_.array->highest >= *most)
        refuse("array", fmt::format("goes up to {}, and MaxArraySize of this cluster is {}: its "
                                    "numbers end at {}",
                                    request_.array->highest, *most, *most - 1));
}

void Judge::check_dependencies() {
    for (const std::string& job : request_.depends_on) {
        const auto found = answers_.jobs.find(job);
        const std::string answer = found == answers_.jobs.end() ? "" : found->second;
        if (answer.find("Invalid job id") != std::string::npos)
            refuse("dependency",
                   fmt::format("Slurm knows no job {}: it never was, or ended more than MinJobAge "
                               "({}) ago",
                               job, config_value(config_, "MinJobAge")));
        else if (answer.find("JobId=") == std::string::npos)
            verdict_.unknown.push_back("whether job " + job +
                                       ", which this one depends on, exists");
    }
}

void Judge::check_partitions() {
    if (!answers_.partitions) {
        verdict_.unknown.emplace_back("the partition's limits: scontrol show partition");
        return;
    }
    const auto names = split(slurm_.partition, ',');
    for (const PartitionFacts& partition : parse_partitions(*answers_.partitions)) {
        const bool meant = slurm_.partition.empty() ? partition.is_default
                                                    : std::find(names.begin(), names.end(),
                                                                partition.name) != names.end();
        if (meant)
            check_partition(partition);
    }
}

void Judge::check_partition(const PartitionFacts& partition) {
    const std::string of = " of partition " + partition.name;
    if (!partition.state.empty() && partition.state != "UP")
        warn("partition", "partition " + partition.name + " is " + partition.state +
                              ": the job waits until it is UP");
    const bool endless = slurm_.time_limit == "UNLIMITED" || slurm_.time_limit == "INFINITE";
    if (partition.most_time && (endless || (limit_ && *limit_ > *partition.most_time)))
        warn("time_limit", fmt::format("{} is longer than MaxTime{}, {}: Slurm refuses the job, or "
                                       "never starts it (PartitionTimeLimit)",
                                       slurm_.time_limit, of, time_text(*partition.most_time)));
    if (partition.most_nodes && nodes_ > *partition.most_nodes)
        warn("nodes", fmt::format("{} nodes are more than MaxNodes{}, {}", nodes_, of,
                                  *partition.most_nodes));
    else if (partition.all_nodes && nodes_ > *partition.all_nodes)
        warn("nodes", fmt::format("{} nodes are more than there are in partition {}, {}", nodes_,
                                  partition.name, *partition.all_nodes));
    if (partition.fewest_nodes && nodes_ < *partition.fewest_nodes)
        warn("nodes", fmt::format("{} nodes are fewer than MinNodes{}, {}", nodes_, of,
                                  *partition.fewest_nodes));
    const auto closed = [](const std::string& allowed, const std::string& mine) {
        return !mine.empty() && !allowed.empty() && allowed != "ALL" && allowed != "(null)" &&
               !has_word(allowed, mine);
    };
    if (closed(partition.allow_accounts, slurm_.account) ||
        (!slurm_.account.empty() && has_word(partition.deny_accounts, slurm_.account)))
        warn("account", "partition " + partition.name + " is closed to account " + slurm_.account);
    if (closed(partition.allow_qos, slurm_.qos))
        warn("qos", "partition " + partition.name + " is closed to QoS " + slurm_.qos);
    check_preemption(partition);
    // Without a limit of its own the job gets DefaultTime, or MaxTime.
    const auto given = slurm_.time_limit.empty()
                           ? (partition.default_time ? partition.default_time : partition.most_time)
                           : limit_;
    check_maintenance(partition, given);
}

void Judge::check_preemption(const PartitionFacts& partition) {
    const std::string type = config_value(config_, "PreemptType");
    if (type.empty() || type == "preempt/none")
        return;
    const std::string& mode = partition.preempt_mode;
    if (mode.starts_with("CANCEL"))
        warn("partition", "PreemptMode of partition " + partition.name +
                              " is CANCEL: a job that gives way to another one is not requeued");
    if (mode.starts_with("REQUEUE") && request_.script.option("no-requeue") != nullptr)
        warn("requeue", "is false, and PreemptMode of partition " + partition.name +
                            " is REQUEUE: a job that may not be requeued is cancelled");
    if (mode.find("SUSPEND") != std::string::npos)
        warn("partition",
             "PreemptMode of partition " + partition.name +
                 " is SUSPEND: agents that stand still for rendezvous.lost_after ask one another "
                 "before they go on (docs/guides/slurm.md)");
}

void Judge::check_maintenance(const PartitionFacts& partition, std::optional<seconds> limit) {
    if (!answers_.reservations) {
        verdict_.unknown.emplace_back("maintenance: scontrol show reservation");
        return;
    }
    const auto usable = host_set(slurm_.nodelist.empty() ? partition.nodes : slurm_.nodelist);
    for (const MaintenanceFacts& maintenance : parse_maintenance(*answers_.reservations, now_)) {
        const bool inside =
            maintenance.starts_at <= now_ || !limit || maintenance.starts_at < now_ + *limit;
        const auto taken = host_set(maintenance.nodes);
        const auto shared = std::count_if(usable.begin(), usable.end(),
                                          [&](const auto& node) { return taken.contains(node); });
        const bool enough = static_cast<long long>(usable.size()) - shared >= nodes_;
        if (!inside || shared == 0 || maintenance.name == slurm_.reservation)
            continue;
        const std::string where =
            enough ? fmt::format("on {} of {} nodes", shared, usable.size())
                   : "and leaves fewer nodes than the job needs: it waits until " +
                         date_text(maintenance.ends_at);
        if (maintenance.starts_at <= now_)
            warn("time_limit", "maintenance " + maintenance.name + " lasts until " +
                                   date_text(maintenance.ends_at) + " " + where);
        else
            warn("time_limit",
                 fmt::format(
                     "maintenance {} begins on {}, inside the time limit, {}; a job of "
                     "less than {} may start before it",
                     maintenance.name, date_text(maintenance.starts_at), where,
                     time_text(std::chrono::duration_cast<seconds>(maintenance.starts_at - now_))));
    }
}

/// At least: Slurm gives whole cores, and whole nodes to who asks for them.
std::vector<Judge::Asked> Judge::all_asked() const {
    const auto on_all = [this](std::optional<long long> each) {
        return each ? std::optional(*each * nodes_) : std::nullopt;
    };
    const BatchOption* memory = request_.script.option("mem");
    return {
        {"gres/gpu", "gpus_per_node", "GPUs", on_all(gpus_)},
        {"node", "nodes", "nodes", nodes_},
        {"cpu", "cpus_per_task", "CPUs",
         on_all(number_of("cpus-per-task").value_or(1) * number_of("ntasks-per-node").value_or(1))},
        {"mem", "mem", "MiB of memory",
         on_all(memory == nullptr ? std::nullopt : tres_count(memory->value.value_or("")))}};
}

void Judge::check_limits(const AccountLimits& limits, const std::string& what) {
    if (limits.most_time && limit_ && *limit_ > *limits.most_time)
        warn("time_limit", fmt::format("{} is longer than MaxWall of {}, {}", slurm_.time_limit,
                                       what, time_text(*limits.most_time)));
    for (const AccountLimits::Most& most : limits.most)
        for (const Asked& asked : all_asked())
            if (most.tres == asked.tres && asked.count && *asked.count > most.count)
                warn(asked.key, fmt::format("{} {} in all are more than {} of {}, {}", *asked.count,
                                            asked.name, most.column, what, most.count));
}

void Judge::check_accounts() {
    const std::string type = config_value(config_, "AccountingStorageType");
    if (type.empty() || type == "accounting_storage/none")
        return;  // there are none
    if (!answers_.associations || !answers_.qos) {
        verdict_.unknown.emplace_back("limits of QoS and account: sacctmgr gives no answer");
        return;
    }
    const auto associations = parse_association_limits(*answers_.associations);
    const auto mine =
        std::find_if(associations.begin(), associations.end(), [this](const AssociationFacts& one) {
            return slurm_.account.empty() || one.account == slurm_.account;
        });
    if (mine == associations.end()) {
        if (enforces("associations"))
            warn("account", "user " + answers_.user + " has no association" +
                                (slurm_.account.empty() ? "" : " in account " + slurm_.account) +
                                ": Slurm refuses the job");
        return;
    }
    if (!slurm_.qos.empty() && !mine->qos.empty() && enforces("qos") &&
        std::find(mine->qos.begin(), mine->qos.end(), slurm_.qos) == mine->qos.end())
        warn("qos", "user " + answers_.user + " may not use QoS " + slurm_.qos + " in account " +
                        mine->account + ", but " + join(mine->qos, ", "));
    if (!enforces("limits"))
        return;
    check_limits(mine->limits, mine->limits.name);
    const std::string qos = !slurm_.qos.empty()          ? slurm_.qos
                            : !mine->default_qos.empty() ? mine->default_qos
                            : mine->qos.size() == 1      ? mine->qos[0]
                                                         : std::string();
    for (const AccountLimits& limits : parse_qos_limits(*answers_.qos))
        if (limits.name == qos)
            check_limits(limits, "QoS " + qos);
}

/// KillWait and who requeues.
void Judge::check_stops() {
    const auto settings = parse_requeue_settings(config_, exit_code::kRequeue);
    const bool may_requeue = request_.script.option("no-requeue") == nullptr;
    if (settings.by_exit_code && settings.which.starts_with("RequeueExitHold"))
        warn("requeue", settings.which +
                            ": a job that ends with 75 is requeued and held; "
                            "scontrol release JOB lets it go on");
    if (settings.by_exit_code && !may_requeue)
        warn("requeue",
             "is false: a job that ends with 75 stays ended, although " + settings.which);
    const auto kill_wait = whole_number(
        config_value(config_, "KillWait").substr(0, config_value(config_, "KillWait").find(' ')));
    if (!kill_wait) {
        verdict_.unknown.emplace_back("KillWait: the time between SIGTERM and SIGKILL");
        return;
    }
    if (request_.script.option("signal") != nullptr)
        return;  // it comes early enough, or the user chose it
    const std::string warning = budget_warning({.save = save_,
                                                .saves = save_ ? std::size_t{1} : 0,
                                                .grace_period = spec_.restart.grace_period,
                                                .kill_wait = seconds(*kill_wait),
                                                .copies = spec_.storage.stage_out_time,
                                                .killer = StopTimes::Killer::slurm});
    if (!warning.empty())
        warn("signal", warning);
}

}  // namespace

ClusterVerdict judge_cluster(const SpecResult& read, const BatchRequest& request,
                             const ClusterAnswers& answers,
                             std::optional<std::chrono::milliseconds> save,
                             system_clock::time_point now) {
    return Judge(read, request, answers, save, now).take();
}

std::vector<std::string> variables_of_sbatch(
    const std::map<std::string, std::string>& environment) {
    std::vector<std::string> names;
    for (auto at = environment.lower_bound("SBATCH_");
         at != environment.end() && at->first.starts_with("SBATCH_"); ++at)
        names.push_back(at->first);
    return names;
}

}  // namespace autolaunch::launcher
