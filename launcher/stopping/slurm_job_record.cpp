#include "stopping/slurm_job_record.hpp"

#include "base/text.hpp"
#include "stopping/scontrol_line.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

std::string list_in(std::string_view line, std::string_view name) {
    const std::string list = scontrol_field(line, name);
    return list == "(null)" ? std::string() : list;
}

// "3"; of a job that waits "2-3".
int nodes_in(std::string_view line) {
    long long nodes = 0;
    const std::string text = scontrol_field(line, "NumNodes");
    const bool told = parse_integer(text.substr(0, text.find('-')), nodes);
    return told && nodes > 0 && nodes <= 1 << 20 ? static_cast<int>(nodes) : 0;
}

SlurmJobRecord record_of(std::string_view line) {
    long long restarts = 0;
    parse_integer(scontrol_field(line, "Restarts"), restarts);
    return {.job_id = scontrol_field(line, "JobId"),
            .state = scontrol_field(line, "JobState"),
            .reason = scontrol_field(line, "Reason"),
            .restarts = static_cast<int>(restarts),
            .is_batch = scontrol_field(line, "BatchFlag") == "1",
            .may_requeue = scontrol_field(line, "Requeue") == "1",
            .ends_at = scontrol_time(scontrol_field(line, "EndTime")),
            .preempted_at = scontrol_time(scontrol_field(line, "PreemptTime")),
            .partition = scontrol_field(line, "Partition"),
            .submitted_at = scontrol_time(scontrol_field(line, "SubmitTime")),
            .eligible_at = scontrol_time(scontrol_field(line, "EligibleTime")),
            .started_at = scontrol_time(scontrol_field(line, "StartTime")),
            .excluded = list_in(line, "ExcNodeList"),
            .required = list_in(line, "ReqNodeList"),
            .nodes = nodes_in(line),
            .allocated = list_in(line, "NodeList"),
            .batch_host = scontrol_field(line, "BatchHost")};
}

seconds until(const std::optional<system_clock::time_point>& end, system_clock::time_point from) {
    if (!end)
        return seconds(0);
    return std::max(seconds(0), std::chrono::duration_cast<seconds>(*end - from));
}

}  // namespace

std::optional<SlurmJobRecord> parse_slurm_job(std::string_view answer, const std::string& job_id) {
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        if (scontrol_field(line, "JobId") == job_id)
            return record_of(line);
    }
    return std::nullopt;
}

std::vector<std::string> slurm_job_question(const std::string& job_id) {
    return {"scontrol", "show", "job", "-o", job_id};
}

std::optional<seconds> time_in_queue(const SlurmJobRecord& record) {
    const auto& since = record.eligible_at ? record.eligible_at : record.submitted_at;
    if (!since || !record.started_at)
        return std::nullopt;
    return until(record.started_at, *since);
}

const char* origin_name(StopOrigin origin) {
    switch (origin) {
        case StopOrigin::unknown:
            return "unknown";
        case StopOrigin::preempted:
            return "preempted";
        case StopOrigin::time_limit:
            return "time limit";
        case StopOrigin::cancelled:
            return "cancelled";
        case StopOrigin::requeued:
            return "requeued";
        case StopOrigin::signalled:
            return "signal";
    }
    return "unknown";
}

// What Slurm 22.05 shows in each case, as seen on a real one: docs/guides/slurm.md has the table.
StopKnown explain_stop(const SlurmJobRecord& record, int restarts, system_clock::time_point now,
                       seconds kill_wait) {
    const std::string state = "JobState=" + record.state;
    if (record.restarts > restarts)
        return {StopOrigin::requeued,
                fmt::format("{} Restarts={}: a preemption or scontrol requeue has put it back into "
                            "the queue",
                            state, record.restarts),
                kill_wait};
    // The grace time is counted between Slurm's own times: its clock may differ from ours.
    if (record.preempted_at)
        return {StopOrigin::preempted,
                fmt::format("{} PreemptTime={} EndTime={}", state, clock_text(record.preempted_at),
                            clock_text(record.ends_at)),
                until(record.ends_at, *record.preempted_at) + kill_wait};
    if (record.reason == "TimeLimit" || record.state == "TIMEOUT")
        return {StopOrigin::time_limit, state + " Reason=" + record.reason, kill_wait};
    if (record.state == "RUNNING" || record.state == "SUSPENDED")
        return {
            StopOrigin::signalled, state + ", no PreemptTime",
            record.ends_at ? std::optional(until(record.ends_at, now) + kill_wait) : std::nullopt};
    if (record.state == "COMPLETING" || record.state == "CANCELLED" || record.state == "SIGNALING")
        return {StopOrigin::cancelled, state + " Reason=" + record.reason + ", no PreemptTime",
                kill_wait};
    return {StopOrigin::unknown, state, std::nullopt};
}

}  // namespace autolaunch::launcher
