#include "causes/stop_cause.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"

#include <fmt/format.h>

#include <csignal>

namespace autolaunch::launcher {

namespace {

// Slurm signals a job at its limit some seconds early or late: `--signal` by up to a minute.
constexpr auto kNearTheLimit = std::chrono::seconds(90);

constexpr char kNoCheckpoint[] = "no checkpoint was published in this run";

EndRecord record_of(Cause cause, Certainty certainty, std::string what, std::string evidence) {
    EndRecord record;
    record.cause = cause;
    record.certainty = certainty;
    record.what = std::move(what);
    record.evidence = {std::move(evidence)};
    return record;
}

EndRecord judge_sender(const AskedToStop& stop, const std::string& signal) {
    if (stop.told)
        return record_of(*stop.told, stop.told_for_sure ? Certainty::certain : Certainty::possible,
                         signal, stop.told_by);
    if (sent_by_a_person(stop.signal))
        return record_of(Cause::cancelled, Certainty::likely, signal,
                         signal + " is what a terminal sends");
    if (stop.left && *stop.left <= kNearTheLimit)
        return record_of(Cause::time_limit, Certainty::likely, signal,
                         fmt::format("{} came {} s before the end of the job's time", signal,
                                     stop.left->count()));
    if (stop.under_scheduler)
        return record_of(Cause::cancelled, Certainty::possible, signal,
                         "the scheduler or a person sent " + signal);
    return record_of(Cause::cancelled, Certainty::likely, signal, "somebody sent " + signal);
}

// A stop of which nobody knows who wanted it may be a preemption's.
std::string why_no_requeue(const AskedToStop& stop) {
    if (sent_by_a_person(stop.signal))
        return "a person has stopped it";
    if (stop.told == Cause::cancelled)
        return "it was cancelled";
    if (!stop.has_checkpoint)
        return kNoCheckpoint;
    return stop.all_ended_well ? "" : "not every rank ended with 0 when it was asked to stop";
}

}  // namespace

bool sent_by_a_person(int signal) {
    return signal == SIGINT || signal == SIGQUIT || signal == SIGHUP;
}

EndRecord judge_stop(const AskedToStop& stop) {
    const std::string signal = signal_name(stop.signal);
    EndRecord record = judge_sender(stop, signal);
    record.no_requeue = why_no_requeue(stop);
    record.exit_code = exit_code::kSignalBase + stop.signal;
    record.outcome = stop.outcome.empty() ? "stopped by " + signal : stop.outcome;
    return record;
}

EndRecord judge_early_stop(const std::string& why) {
    EndRecord record = record_of(Cause::cancelled, Certainty::certain, kStoppedEarly, why);
    record.vain = record.no_requeue = "its sweep has stopped it early";
    record.exit_code = exit_code::kSuccess;
    record.outcome = kStoppedEarly;
    return record;
}

EndRecord judge_lost_node(const std::string& node, const std::string& why, bool has_checkpoint) {
    EndRecord record = record_of(Cause::node_lost, Certainty::likely, node + " was lost", why);
    record.node = node;
    record.no_requeue = has_checkpoint ? "" : kNoCheckpoint;
    record.exit_code = exit_code::kNoHost;
    record.outcome = "failed: " + record.what;
    return record;
}

EndRecord judge_ranks_given_up(const std::string& node, const std::string& why) {
    EndRecord record = record_of(Cause::network, Certainty::likely,
                                 node + " was cut off from the head for too long", why);
    record.node = node;
    record.exit_code = exit_code::kNoHost;
    record.outcome = "failed: " + record.what;
    return record;
}

EndRecord judge_agent_killed(const std::string& node) {
    const std::string where = node.empty() ? "" : " on " + node;
    EndRecord record = record_of(
        Cause::agent_killed, Certainty::certain, "autolaunch itself was killed" + where,
        "autolaunch-keep, the process that waits for autolaunch's agent" + where + ", was killed");
    record.node = node;
    record.exit_code = exit_code::kSignalBase + SIGKILL;
    record.outcome = "stopped: " + record.what;
    return record;
}

EndRecord with_processes_left(EndRecord record) {
    const std::string left = "processes that hang in the kernel are left";
    record.evidence.push_back(left);
    record.vain = record.no_requeue = left;
    record.exit_code = exit_code::kSystem;
    record.outcome = "failed: " + left;
    return record;
}

EndRecord judge_hang(const HangFacts& hang) {
    EndRecord record =
        record_of(Cause::hang, hang.sure ? Certainty::certain : Certainty::likely, hang.what, {});
    record.rank = hang.rank;
    record.node = hang.node;
    record.evidence = hang.evidence;
    record.remedy = "ended after " + hang.limit;
    record.exit_code = exit_code::kHang;
    record.outcome = "failed: the job stood still";
    return record;
}

EndRecord judge_straggler(int rank, const std::string& node, const std::string& what) {
    EndRecord record = record_of(Cause::straggler, Certainty::likely, what, what);
    record.rank = rank;
    record.node = node;
    record.outcome = "failed: the others waited for rank " + std::to_string(rank);
    return record;
}

EndRecord judge_start(const StartFacts& start) {
    Cause cause = Cause::cannot_start;
    if (start.exit_code == exit_code::kCannotCreate)
        cause = Cause::storage;
    else if (start.exit_code == exit_code::kInternal)
        cause = Cause::internal;
    EndRecord record = record_of(cause, Certainty::certain, start.what, start.what);
    record.rank = start.rank;
    record.node = start.node;
    record.remedy = start.hint;
    record.exit_code = start.exit_code;
    record.outcome = start.while_running ? "failed" : "failed to start";
    if (!start.restart_helps)
        record.vain = start.while_running ? "its data does not come" : "it cannot be started";
    return record;
}

}  // namespace autolaunch::launcher
