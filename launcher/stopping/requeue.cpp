#include "stopping/requeue.hpp"

#include "allocation/hostlist.hpp"
#include "allocation/slurm_command.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stopping/exclusion.hpp"
#include "stopping/knock.hpp"
#include "stopping/over_time_limit.hpp"
#include "stopping/scontrol_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <set>
#include <string_view>
#include <thread>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kAskTime = 5s, kRequeueTime = 10s;  // a busy slurmctld
constexpr auto kGiveBackTime = 5s;                 // slurmdbd answers meanwhile
// Until Slurm notices that a node is gone: its own default, the longest waited for, and more.
constexpr std::chrono::seconds kUsualNotice = 300s, kNoticeMargin = 30s;
constexpr long long kLongestNotice = 600;

std::string variable(const EnvironmentMap& environment, const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

// "75", "70-80", "1,75": of RequeueExit.
bool holds(std::string_view list, int code) {
    for (const std::string& part : split(std::string(list), ',')) {
        const std::size_t dash = part.find('-');
        long long first = 0, last = 0;
        if (!parse_integer(part.substr(0, dash), first))
            continue;
        if (dash == std::string::npos)
            last = first;
        else if (!parse_integer(part.substr(dash + 1), last))
            continue;
        if (first <= code && code <= last)
            return true;
    }
    return false;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string requeue_name(const EnvironmentMap& environment) {
    const std::string array = variable(environment, "SLURM_ARRAY_JOB_ID"),
                      element = variable(environment, "SLURM_ARRAY_TASK_ID"),
                      leader = variable(environment, "SLURM_JOB_ID_HET_GROUP_0");
    if (!array.empty() && !element.empty())
        return array + "_" + element;
    return leader.empty() ? variable(environment, "SLURM_JOB_ID") : leader;
}

RequeueSettings parse_requeue_settings(std::string_view config, int exit_code) {
    RequeueSettings settings;
    while (!config.empty()) {
        const std::string_view line = config.substr(0, config.find('\n'));
        config.remove_prefix(std::min(line.size() + 1, config.size()));
        if (!line.starts_with("RequeueExit"))
            continue;
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos)
            continue;
        const std::string name(trim(line.substr(0, equals))), value(trim(line.substr(equals + 1)));
        if (!holds(value, exit_code))
            continue;
        settings = {true, name + " = " + value};
    }
    return settings;
}

// "SlurmdTimeout           = 300 sec"
std::chrono::seconds time_to_notice(std::string_view config) {
    constexpr std::string_view kName = "SlurmdTimeout";
    const std::size_t line = config.find(kName);
    long long number = 0;
    if (line != std::string_view::npos) {
        const std::string_view rest = config.substr(line, config.find('\n', line) - line);
        const std::string value(trim(rest.substr(std::min(rest.find('=') + 1, rest.size()))));
        parse_integer(value.substr(0, value.find(' ')), number);
    }
    return kNoticeMargin +
           (number > 0 ? std::chrono::seconds(std::min(number, kLongestNotice)) : kUsualNotice);
}

// A node's own Port is shown only where it is not slurm.conf's, of which a range is none that could
// be asked.
std::vector<SlurmDaemon> slurm_daemons(std::string_view answer, std::string_view config) {
    constexpr std::string_view kName = "SlurmdPort";
    std::uint16_t usual = 0;
    if (const std::size_t line = config.find(kName); line != std::string_view::npos) {
        const std::string_view rest = config.substr(line, config.find('\n', line) - line);
        usual = port_from(trim(rest.substr(std::min(rest.find('=') + 1, rest.size()))));
    }
    std::vector<SlurmDaemon> daemons;
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        SlurmDaemon daemon{.node = scontrol_field(line, "NodeName"),
                           .address = scontrol_field(line, "NodeAddr"),
                           .port = port_from(scontrol_field(line, "Port"))};
        if (daemon.port == 0)
            daemon.port = usual;
        if (!daemon.node.empty())
            daemons.push_back(std::move(daemon));
    }
    return daemons;
}

namespace {

bool is_requeued(const SlurmJobRecord& record, int restarts) {
    return record.restarts > restarts || record.state == "PENDING";
}

}  // namespace

RequeueChoice choose_requeue(const std::optional<SlurmJobRecord>& record,
                             const std::optional<RequeueSettings>& settings, int restarts,
                             const std::string& name) {
    const std::string not_done = "not requeued by autolaunch: ";
    if (!record)
        return {false, not_done + "scontrol says nothing of job " + name +
                           "; by hand: scontrol requeue " + name};
    if (is_requeued(*record, restarts))
        return {false, not_done + "job " + name + " is requeued already"};
    // Slurm would start a cancelled job again, too.
    if (explain_stop(*record, restarts, {}, {}).origin == StopOrigin::cancelled)
        return {false, not_done + "the job was cancelled (scancel)"};
    if (!record->is_batch)
        return {false, not_done + "Slurm requeues only jobs of sbatch"};
    if (!record->may_requeue)
        return {false, not_done + "the job may not be (Requeue=0); submit it with --requeue"};
    if (!settings)
        return {false, not_done +
                           "scontrol does not show whether RequeueExit holds 75, and two "
                           "requeues are one too many; by hand: scontrol requeue " +
                           name};
    if (settings->by_exit_code)
        return {false, not_done + "slurm.conf has " + settings->which +
                           ", by which Slurm does it when the script ends with 75"};
    return {true, "requeue: scontrol requeue " + name + " (slurm_config.requeue)"};
}

namespace {

// Who requeues it is another, and Slurm excludes nothing before that.
void say_by_hand(const RequeueRequest& request, const std::string& name,
                 const std::function<void(const std::string& line)>& say) {
    for (const auto& [node, why] : request.unfit)
        say(
            fmt::format("{} is not excluded, although {}; by hand, once the job waits: scontrol "
                        "update JobId={} ExcNodeList={}",
                        node, why, name, node));
}

std::string ask(const std::vector<std::string>& question) {
    return SlurmCommand(question).wait(Deadline::after(kAskTime));
}

// Empty: it was done.
std::string refusal_of(const std::vector<std::string>& command) {
    SlurmCommand change(command, SlurmCommand::Errors::take);
    return first_line(change.wait(Deadline::after(kRequeueTime)));
}

// Why Slurm does not take the nodes back; empty: it has. It takes none for a moment after another
// change of the job's size; without accounting (slurmdbd) after one change no other.
std::string give_back(const std::string& job, const std::string& kept) {
    const auto deadline = Deadline::after(kGiveBackTime);
    for (;;) {
        const std::string refused = refusal_of(shrink_command(job, kept));
        if (refused.empty() || deadline.passed())
            return refused;
        std::this_thread::sleep_for(1s);
    }
}

// Until Slurm has noticed that they are gone.
void await_notice(const std::string& job, const std::set<std::string>& gone,
                  std::chrono::seconds time) {
    const auto deadline = Deadline::after(time);
    for (;;) {
        const auto record = parse_slurm_job(ask(slurm_job_question(job)), job);
        if (deadline.passed() || (record && nodes_to_keep(*record, gone).empty()))
            return;
        std::this_thread::sleep_for(2s);
    }
}

// Where an agent alone was lost, the machine is there: Slurm has its word, and needs no parting.
std::set<std::string> silent_ones(const std::set<std::string>& nodes, std::string_view config) {
    std::set<std::string> silent;
    if (nodes.empty())
        return silent;
    const std::vector<std::string> names(nodes.begin(), nodes.end());
    for (const SlurmDaemon& daemon : slurm_daemons(
             ask({"scontrol", "show", "node", "-o", compress_hostlist(names)}), config))
        if (knock(daemon.address, daemon.port) != Knock::open)
            silent.insert(daemon.node);
    return silent;
}

// The nodes that are gone, in Slurm's eyes too; not those that live and that it is only not to give
// again.
void part_with(const SlurmJobRecord& record, const std::set<std::string>& lost,
               const std::set<std::string>& not_excluded, std::string_view config,
               const std::function<void(const std::string& line)>& say) {
    const auto notice = time_to_notice(config);
    std::set<std::string> gone;
    std::set_intersection(lost.begin(), lost.end(), not_excluded.begin(), not_excluded.end(),
                          std::inserter(gone, gone.end()));
    gone = silent_ones(gone, config);
    const std::string kept = nodes_to_keep(record, gone);
    if (kept.empty())
        return;
    const std::string refused = give_back(record.job_id, kept);
    if (refused.empty())
        return;
    say(
        fmt::format("requeue waits until Slurm has noticed which nodes are gone, {} s at most: "
                    "before that it would hold the job ({})",
                    notice.count(), refused));
    await_notice(record.job_id, gone, notice);
}

}  // namespace

void requeue_if_wanted(const RequeueRequest& request, const EnvironmentMap& environment,
                       const std::function<void(const std::string& line)>& say) {
    const std::string name = requeue_name(environment);
    if (request.exit_code != exit_code::kRequeue || name.empty())
        return;
    if (!request.wanted)
        return say_by_hand(request, name, say);
    const std::string job = variable(environment, "SLURM_JOB_ID");
    auto record = parse_slurm_job(ask(slurm_job_question(job)), job);
    // Of a job that has lost nodes Slurm shows fewer than it will want again.
    if (long long nodes = 0;
        record && parse_integer(variable(environment, "SLURM_JOB_NUM_NODES"), nodes) && nodes > 0)
        record->nodes = std::max(record->nodes, static_cast<int>(nodes));
    const std::string config = ask(config_question());
    const auto settings = config.empty()
                              ? std::nullopt
                              : std::optional(parse_requeue_settings(config, exit_code::kRequeue));
    const RequeueChoice choice = choose_requeue(record, settings, request.restarts, name);
    Exclusion exclusion;
    if (choice.act && !request.unfit.empty())
        exclusion =
            choose_exclusion(request.unfit, *record, ask(partition_question(record->partition)));
    for (const std::string& line : exclusion.lines)
        say(line);
    say(choice.why);
    if (!choice.act)
        return say_by_hand(request, name, say);
    part_with(*record, request.lost, exclusion.kept, config, say);
    // From here on Slurm ends this job's processes, first by SIGTERM; it takes the nodes only while
    // the job waits.
    ::signal(SIGTERM, SIG_IGN);
    const auto now = parse_slurm_job(ask(slurm_job_question(job)), job);
    const bool by_slurm = now && is_requeued(*now, request.restarts);
    const std::string refused =
        by_slurm ? std::string() : refusal_of({"scontrol", "requeue", name});
    if (!refused.empty())
        return say("scontrol requeue " + name + " failed: " + refused);
    if (exclusion.list.empty())
        return;
    const auto command = exclusion_command(name, exclusion.list);
    if (const std::string why = refusal_of(command); !why.empty())
        say(fmt::format("{} failed: {}", fmt::join(command, " "), why));
}

}  // namespace autolaunch::launcher
