#pragma once
#include "idle/gpu_time.hpp"
#include "idle/gpu_trace.hpp"
#include "idle/job_course.hpp"
#include "ledger/ledger.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

using RecordTime = JobTime;
using RecordSpan = JobSpan;

/// Why a generation ended that should have gone on.
struct RecordFailure {
    RecordTime at;
    int generation = 0;
    std::string cause = {};      ///< as the event says it; empty: it does not
    std::string certainty = {};  ///< the same
    std::string who = {};        ///< "rank 13 (node2, GPU 5, pid 8123)", "node3"
    std::string how = {};        ///< "was killed by SIGSEGV at step 1243"
    std::string what = {};       ///< what it said, or why
    std::vector<std::string> evidence = {};
    std::string remedy = {};
    std::string follows = {};  ///< "restart 1 of 3 from the checkpoint of step 1200"; "no restart"
    std::string log = {};      ///< the file to read
};

struct RecordCheckpoint {
    RecordTime at;
    std::int64_t step = 0;
    double stall_seconds = 0;
};

/// A rank of the newest generation, as planned and as started.
struct RecordRank {
    int rank = 0, local_rank = 0;
    std::string node = {};
    std::optional<int> gpu = {}, pid = {};
    std::string cpus = {};    ///< "0-15"; empty: not bound, or not known
    std::string reason = {};  ///< of its place
    std::string end = {};     ///< "exited with code 0"; empty: not known
    bool failed = false;
};

/// Some steps in a row.
struct RecordPace {
    RecordTime at;  ///< of the last of them
    std::int64_t step = 0;
    double steps_per_second = 0;
    std::optional<double> tokens_per_second = {}, loss = {};
};

/// The GPUs of a node that the job held, by its plan.
struct PlannedGpus {
    std::string hostname = {};
    NodeTrace trace = {};  ///< by the scheduler's name of the node; without samples
};

struct RecordCertificate {
    std::string file = {}, node = {};
    bool clean = false;
    std::vector<std::string> left = {};
};

/// A run directory's content, of bounded size however long the job was.
struct RunRecord {
    std::string run_dir = {}, job_name = {}, run_id = {}, hostname = {}, binding = {};
    int node_count = 0, world_size = 0;
    std::vector<std::string> node_names = {};
    std::optional<RecordTime> started = {}, last_seen = {};
    std::optional<int> exit_code = {};
    std::string outcome = {};  ///< "succeeded"; empty: it goes on, or its end was not recorded
    int restarts = 0;
    Ledger ledger;
    std::vector<RecordSpan> spans = {};
    std::vector<RecordFailure> failures = {};
    std::vector<RecordCheckpoint> checkpoints = {};
    std::int64_t checkpoint_count = 0;
    double stall_seconds = 0;
    std::optional<std::int64_t> last_step = {}, total_steps = {};
    std::vector<RecordRank> ranks = {};
    std::vector<RecordPace> pace = {};
    std::vector<std::string> data = {};  ///< what was staged, and copied out; a sentence each
    std::vector<std::string> warnings = {};
    std::vector<RecordCertificate> certificates = {};
    JobCourse course = {};  ///< but for `spans`, which are above
    std::vector<PlannedGpus> planned_gpus = {};
    JobGpuTime gpu_time = {};            ///< of all nodes, once their samples are read
    std::vector<std::string> gaps = {};  ///< what is missing here, and why; a sentence each
};

inline constexpr std::size_t kMostSpans = 2'000, kMostFailures = 200, kMostCheckpoints = 2'000,
                             kMostPaces = 512, kMostWarnings = 200, kMostRecordGaps = 100,
                             kMostRanks = 100'000;

}  // namespace autolaunch::launcher
