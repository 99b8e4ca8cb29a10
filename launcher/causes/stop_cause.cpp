#include "causes/stop_cause.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"

#include <fmt/format.h>

#include <csignal>

namespace autolaunch::launcher {

namespace {

// Slurm signals a job at its limit some seconds early or late: `--signal` by up to a minute.
constexpr auto kNearTheLimit = std::chrono::seconds(90);

EndRecord record_of(Cause cause, Certainty certainty, std::string what, std::string evidence) {
    EndRecord record;
    record.cause = cause;
    record.certainty = certainty;
    record.what = std::move(what);
    record.evidence = {std::move(evidence)};
    return record;
}

}  // namespace

EndRecord judge_stop(const AskedToStop& stop) {
    const std::string signal = signal_name(stop.signal);
    if (stop.told)
        return record_of(*stop.told, Certainty::certain, signal, stop.told_by);
    if (stop.signal == SIGINT || stop.signal == SIGQUIT || stop.signal == SIGHUP)
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

EndRecord judge_lost_node(const std::string& node, const std::string& why) {
    EndRecord record = record_of(Cause::node_lost, Certainty::likely, node + " was lost", why);
    record.node = node;
    return record;
}

EndRecord judge_agent_killed() {
    return record_of(Cause::agent_killed, Certainty::certain, "autolaunch itself was killed",
                     "the process that waits for autolaunch's agent was killed");
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
    if (!start.restart_helps)
        record.vain = "it cannot be started";
    return record;
}

}  // namespace autolaunch::launcher
