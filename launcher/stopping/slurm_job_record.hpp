#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What `scontrol show job -o` says of a job, as far as a stop is concerned.
struct SlurmJobRecord {
    std::string job_id;
    std::string state;   ///< RUNNING, COMPLETING, PENDING, … COMPLETING hides what comes after it
    std::string reason;  ///< TimeLimit, BeginTime, None, …
    int restarts = 0;
    bool is_batch = false;     ///< BatchFlag
    bool may_requeue = false;  ///< Requeue
    std::optional<std::chrono::system_clock::time_point> ends_at, preempted_at;
    std::string partition;
    std::optional<std::chrono::system_clock::time_point> submitted_at, eligible_at, started_at;
    std::string excluded, required;  ///< ExcNodeList, ReqNodeList: host lists; empty: none
    int nodes = 0;                   ///< NumNodes; 0: it does not say
    std::string allocated;           ///< NodeList, a host list; empty: none
    std::string batch_host;

    bool operator==(const SlurmJobRecord&) const = default;
};

/// Times are in this machine's time zone, as scontrol writes them. Asked for the last element of an
/// array or a component of a heterogeneous job, scontrol shows all of them, a line each: the line
/// of `job_id` counts. Nothing: there is none. Reads the time zone.
std::optional<SlurmJobRecord> parse_slurm_job(std::string_view answer, const std::string& job_id);

/// `scontrol show job -o JOB`; the job's number alone, as in SLURM_JOB_ID.
std::vector<std::string> slurm_job_question(const std::string& job_id);

/// From the moment at which Slurm might have started it (its dependencies were met, its --begin had
/// come) until it did. Nothing: it does not say. Pure.
std::optional<std::chrono::seconds> time_in_queue(const SlurmJobRecord& record);

enum class StopOrigin {
    unknown,     ///< nobody could say
    preempted,   ///< Slurm wants the nodes for another job
    time_limit,  ///< the job's time is over
    cancelled,   ///< scancel, by the user or an operator
    requeued,    ///< somebody has requeued the job: it is pending again
    signalled,   ///< a signal alone (--signal, scancel --signal, kill): the job itself goes on
};
/// "preempted", "time limit", …
const char* origin_name(StopOrigin origin);

struct StopKnown {
    StopOrigin origin = StopOrigin::unknown;
    std::string evidence;  ///< the fields that say so: "JobState=RUNNING PreemptTime=…"
    /// From the signal on, until Slurm ends the job's processes; nothing: no limit is known.
    std::optional<std::chrono::seconds> left;
};

/// Who sent the stop signal that has come just now, by a record that was asked for then.
/// `restarts` is SLURM_RESTART_COUNT, `kill_wait` Slurm's. Pure.
StopKnown explain_stop(const SlurmJobRecord& record, int restarts,
                       std::chrono::system_clock::time_point now, std::chrono::seconds kill_wait);

}  // namespace autolaunch::launcher
