#pragma once
#include "causes/cause.hpp"
#include "causes/failure_evidence.hpp"
#include "exit_codes/rank_exited.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace autolaunch::launcher {

// What happens in a job, in the order it happens. supervise makes events; report turns them into
// the console, events.jsonl and the first-failure screen, and knows nothing of who made them.
// `rank` is global.

struct JobStarted {
    std::string job_name, run_id, run_dir, hostname;
    int node_count = 1, world_size = 1, max_restarts = 0;
    std::optional<int> ranks_per_node = 1;  ///< nothing: nodes differ
    std::vector<std::string> spares = {};   ///< nodes besides, which wait
    std::string joined;  ///< one line: "4/4 nodes in 12 ms · head node1 · …"; empty with one node
    std::string binding;  ///< one word: "exclusive"
    std::string nccl;     ///< one line; empty without GPUs
    std::vector<std::string> warnings;
    std::chrono::milliseconds preparation{0};  ///< since the program's start: joining, planning
    std::optional<int> requeue = {};  ///< how often the scheduler had requeued the job; nothing:
                                      ///< none that would
};
struct GenerationStarted {
    int generation = 0;
    std::chrono::milliseconds startup{0};  ///< from the decision to start to the last rank's exec
    // Of all nodes:
    int ranks_bound = 0;           ///< the kernel keeps them where the plan put them
    int numa_nodes = 0, gpus = 0;  ///< GPUs: those that ranks were given
};
/// When the scheduler takes the nodes away.
struct TimeLimitKnown {
    std::chrono::system_clock::time_point ends_at;
    std::chrono::seconds left{0};
    bool changed = false;  ///< an operator has given it more time, or less; or over_time is known
    std::chrono::seconds over_time{0};  ///< of it, after the limit (Slurm's OverTimeLimit)
};
/// How long the job had waited in the scheduler's queue, before this start.
struct QueueTimeKnown {
    std::chrono::milliseconds waited{0};
};
/// What a save takes, by those that were measured, and whether a stop has the time for it.
struct StopBudgetKnown {
    std::chrono::milliseconds save{0};  ///< 99 of 100 took no longer
    std::size_t saves = 0;
    bool fits = true;
    std::string text;
};
struct RankStarted {
    int rank = 0, local_rank = 0, pid = 0;
    std::optional<int> gpu = {};
    bool stayed = false;  ///< the process is of an earlier generation
    bool spare = false;   ///< the process waited for it (restart.warm_processes)
};
struct StepReported {
    int rank = 0;
    std::int64_t step = 0;
    std::optional<std::int64_t> total_steps, tokens;
    std::optional<double> loss, seconds;
    std::optional<double> input_seconds = {};  ///< waited for input since the report before
};
struct CheckpointPublished {
    int rank = 0;
    std::int64_t step = 0;
    std::string path;
    double stall_seconds = 0;
    std::optional<double> save_seconds = {};  ///< from its begin until it was published
    std::optional<std::int64_t> bytes = {};   ///< of all its files
};
/// It is in a further place.
struct CheckpointDrained {
    int rank = 0;
    std::int64_t step = 0;
    std::string path;
    std::int64_t bytes = 0;   ///< of all its files
    std::int64_t copied = 0;  ///< of them now
    double seconds = 0;
};
/// The job's ranks have read its state.
struct CheckpointLoaded {
    int rank = 0;
    std::int64_t step = 0;
    std::string path;
};
struct CheckpointDeleted {
    int rank = 0;
    std::string path;
};
struct MessageReported {
    int rank = 0;
    std::string text;
};
struct StopRequested {
    std::string reason;                      ///< "SIGTERM", "rank 3 failed", …
    bool failed = false;                     ///< for what has failed, not because somebody asked
    std::chrono::milliseconds detection{0};  ///< since it failed
    std::optional<std::chrono::milliseconds> grace = {};  ///< until SIGKILL
    bool can_hurry = false;  ///< the same again, and SIGKILL comes at once
};
/// Why the job was stopped, by the scheduler's word.
struct StopExplained {
    std::string
        origin;  ///< "preempted", "time limit", "cancelled", "requeued", "signal", "unknown"
    std::string evidence;                           ///< the fields that say so
    std::optional<std::chrono::seconds> left = {};  ///< until the scheduler kills all
    std::chrono::milliseconds grace{0};             ///< until we do
};
struct RankSignalled {
    int rank = 0, signal = 0;
};
/// A generation ended because a rank failed. The first failure wins.
struct GenerationFailed {
    int generation = 0;
    RankExited first;
    std::string hostname;
    std::optional<int> gpu;
    FailureEvidence evidence;              ///< shown, not recorded
    EndRecord record;                      ///< why; recorded in GenerationEnded
    std::vector<RankExited> others;        ///< by node, in the order they ended there
    std::string stderr_path, stdout_path;  ///< of the first failing rank
    std::string error_file_path;           ///< torchelastic's JSON, if it wrote one
    std::optional<std::int64_t>
        oom_kills;  ///< by the kernel in the job's cgroup in this generation; nothing: unknown
    std::chrono::milliseconds stopped_others_in{0};
    std::optional<int> restart_number;  ///< nothing: no restart left
    int max_restarts = 0;
    std::optional<std::int64_t> checkpoint_step;  ///< the newest that was reported
    std::string culprit = {};  ///< "rank 3 has not entered all_reduce #2", in which the first gave
                               ///< up; empty: nobody else is known to be; shown, not recorded
    std::vector<std::string> flight = {};  ///< sentences: where the ranks were; shown, not recorded
    std::string flight_path = {};          ///< the file with all of it; empty: none
    std::string no_room = {};  ///< why nothing can be written where its logs are; empty: it can
    std::string cannot_resume = {};    ///< why no checkpoint can be gone on from; empty: one can
    bool restart_held_back = false;    ///< restarts are left, and none is tried: without room, or
                                       ///< with the same checkpoints
    std::string restart_account = {};  ///< of a restart: "1 of 3", "for network, 2 of 5 in 6 h"
    std::chrono::milliseconds restart_delay{0};  ///< before it
    std::string no_restart = {};                 ///< why there is none; empty: none was ever wanted
    bool input_spent = false;                    ///< the same, without what came in on stdin
    std::string core = {};  ///< the core file and what opens it, or why there is none
};
/// A generation is over, and why; nothing where every rank has finished.
struct GenerationEnded {
    std::optional<EndRecord> record;
    std::string next = {};              ///< "restart", "requeue" or "stop"; empty: it has finished
    std::optional<int> exit_code = {};  ///< of the job; nothing: it goes on, or has finished
    std::string no_requeue = {};        ///< why the scheduler is not asked to start it again
};
/// A node is gone, with its ranks; nobody can say how they ended.
struct NodeLost {
    std::string node;        ///< as the scheduler calls it
    std::vector<int> ranks;  ///< ascending
    std::string why;         ///< a sentence: "node2 (10.0.0.2) has fallen silent: …"
    int stopped = 0;         ///< ranks on other nodes that were stopped for it
    std::chrono::milliseconds stopped_others_in{0};
    std::chrono::milliseconds ran{0};      ///< the job, until then
    bool goes_on = false;                  ///< the job does, without it
    std::vector<std::string> flight = {};  ///< as GenerationFailed's
    std::string flight_path = {};
};
/// Somebody asked where the ranks are.
struct FlightShown {
    std::string reason;  ///< "SIGUSR2"
    std::vector<std::string> lines;
    std::string path;  ///< the file with all of it; empty: none
};
/// No rank comes to its next step, and none of them will by itself.
struct StandstillNoticed {
    std::string headline;  ///< "no step for 4.1 s, where one takes 0.3 s"
    std::chrono::milliseconds silence{0}, usual{0};
    bool sure = false;                ///< false: a rank works, for long beyond what is usual
    std::vector<int> ranks;           ///< that others wait for, ascending; empty: nobody knows
    std::vector<std::string> lines;   ///< what they do
    std::vector<std::string> flight;  ///< where the ranks are, by their recorders
    std::string path;                 ///< the file with all of it; empty: none
};
/// Where the threads of a rank are that does not go on was written down.
struct StacksShown {
    int rank = 0;
    std::string node;     ///< its node; empty: there is one alone
    std::string path;     ///< on its node; empty: it could not be written
    std::string problem;  ///< why something is missing; else empty
};
/// Steps are done again.
struct StandstillOver {
    std::chrono::milliseconds lasted{0};
};
/// The others wait for these ranks in every step.
struct StragglersSeen {
    std::vector<int> ranks;          ///< the slowest first
    std::vector<std::string> lines;  ///< a sentence each, with what it lacks where that is seen
};
/// How much of the newest window ranks have spent in collectives, by their flight recorders: who
/// waits least is waited for.
struct WaitsMeasured {
    std::vector<int> ranks;      ///< ascending; those whose recorders say too little are not there
    std::vector<double> shares;  ///< of each, of 1
};
/// The job stood still for restart.hang_after, and the generation was ended for it.
struct JobHung {
    StandstillNoticed found;          ///< who holds it up, and where the others wait
    EndRecord record;                 ///< recorded in GenerationEnded
    std::vector<std::string> stacks;  ///< files: where the threads of those are
    int stopped = 0;                  ///< ranks that were stopped for it
    std::chrono::milliseconds stopped_in{0};
    std::optional<int> restart_number = {};            ///< nothing: there is none
    std::optional<std::int64_t> checkpoint_step = {};  ///< the newest that was reported
    std::string restart_account = {};
    std::chrono::milliseconds restart_delay{0};
    std::string no_restart = {};  ///< why there is none
};
/// The generation that begins now has other nodes than the one before: the job goes on without
/// those it has lost.
struct WorldChanged {
    int nodes = 0, world_size = 0;
    std::vector<std::string> without;       ///< by name, all that were lost or left out so far
    std::vector<std::string> instead = {};  ///< that were spares until now
};
/// A node has come to the running job, and waits as a spare.
struct NodeJoined {
    std::string node, address;
    int ranks = 1;     ///< that it starts where it takes part
    std::string when;  ///< it takes part: "at once", "when a generation ends", "when one is lost"
};
/// A node was left on somebody's wish, before it was lost.
struct NodeDrained {
    std::string node;
};
/// Somebody who has proved that he may wants something of the running job.
struct JobAsked {
    std::string what;  ///< "attach", "drain", "take_back"
    std::string node;  ///< that it is about; empty: none
    std::string who;   ///< "process 812 of user 2001 on this node", "10.0.0.3, with the job's key"
};
/// The node that decides is gone: this one ends its ranks by itself.
struct HeadLost {
    std::string node, why;
};
/// This node's agent is the job's head from now on; the one before is gone, or not heard.
struct HeadChanged {
    std::string node, from;
    int term = 0;  ///< of its reign: each later one has a higher
};
/// A rank could not be started at all; or, while it ran, what it was started without does not come.
struct SpawnFailed {
    int rank = 0;
    std::string what, hint;
    Cause cause = Cause::cannot_start;
    bool while_running = false;
};
/// A rank is not where the plan put it. A warning for the whole node goes with it.
struct PlacementDrifted {
    int rank = 0;
    std::string what;  ///< goes on after "rank 3 "
};
/// Whether the ranks of this node compute on the GPUs of the plan. The first time that all of them
/// are seen on one, and the first time that nobody can tell.
struct GpuPlacementKnown {
    int as_planned = 0, elsewhere = 0;
    std::string cannot_tell;  ///< why; else empty
};
/// The interpreter of this node has imported what its ranks are forked with.
struct PythonPreloaded {
    int pid = 0;
    int modules = 0;
    std::chrono::milliseconds took{0};
    std::string late;  ///< a module that each rank will import by itself; empty: none is known
    bool as_before = false;  ///< nobody asked for it in this run, but in an earlier one
    int copies = 0;          ///< files that it and its ranks see on this node's own disk
};
/// A process waits from now on to take the place of a rank of this node.
struct SpareReady {
    int local_rank = 0, pid = 0;
    std::chrono::milliseconds took{0};  ///< from its start on
};
/// Data of the job is being brought to this node's own disk.
struct DataStaging {
    std::string name;
    std::int64_t bytes = 0, of = 0;
};
/// Ranks of a node are started before it is there: each file is once it is whole.
struct DataComes {
    std::string name, path;
    std::int64_t bytes = 0, files = 0;
};
/// It is there.
struct DataStaged {
    std::string name, path;
    std::int64_t bytes = 0, files = 0;
    std::int64_t read_bytes = 0;       ///< of it from its source, by this node, now
    std::int64_t unchecked_files = 0;  ///< of a bucket, which has no checksum of them
    bool was_here = false;             ///< since an earlier job
    bool is_shared = false;            ///< in the site's shared cache, not in this user's
    std::chrono::milliseconds took{0};
};
/// What ranks have written is being copied out of a node's own disk.
struct DataStagingOut {
    std::string node, name;
    std::int64_t bytes = 0, of = 0;
};
/// It is where it is to be, and durable.
struct DataStagedOut {
    std::string node, name, to;
    std::int64_t bytes = 0, files = 0;
    std::int64_t found_files = 0;  ///< of them: there before, with that content
    std::chrono::milliseconds took{0};
};
/// It is not, and stays on that node.
struct DataLeft {
    std::string node = {}, name = {}, to = {};  ///< name: empty where all of the node's is meant
    std::string folder = {};                    ///< there
    std::int64_t bytes = 0, files = 0;
    std::string why = {}, hint = {};
    std::string command = {};  ///< that finishes it, on that node
    int exit_code = 0;         ///< of a job that would have succeeded
};
struct WarningRaised {
    std::string text;
};
struct JobEnded {
    int exit_code = 0;
    std::string outcome;  ///< "succeeded", "failed", "stopped by SIGTERM"
    int restarts = 0;
    std::chrono::milliseconds ran{0};
};

struct Event {
    std::chrono::system_clock::time_point at;
    int generation = 0;
    std::variant<JobStarted, GenerationStarted, TimeLimitKnown, QueueTimeKnown, RankStarted,
                 StepReported, CheckpointPublished, CheckpointLoaded, CheckpointDeleted,
                 CheckpointDrained, MessageReported, StopRequested, RankSignalled, RankExited,
                 StopExplained, StopBudgetKnown, GenerationFailed, GenerationEnded, NodeLost,
                 WorldChanged, NodeJoined, NodeDrained, JobAsked, HeadLost, HeadChanged,
                 SpawnFailed, PlacementDrifted, GpuPlacementKnown, PythonPreloaded, SpareReady,
                 DataStaging, DataComes, DataStaged, DataStagingOut, DataStagedOut, DataLeft,
                 WarningRaised, FlightShown, StandstillNoticed, StandstillOver, StacksShown,
                 JobHung, StragglersSeen, WaitsMeasured, JobEnded>
        what;
};
using Happening = decltype(Event::what);

}  // namespace autolaunch::launcher
