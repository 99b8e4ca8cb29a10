#pragma once
#include "ledger/ledger.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

using JobTime = std::chrono::sys_time<std::chrono::milliseconds>;

/// What the job as a whole did between two moments.
struct JobSpan {
    LedgerKind kind = LedgerKind::launch;
    JobTime from, to;
    int generation = 0;
};

/// What happened to all GPUs of a job at once, and when: what no sample of a node tells. Its size
/// is bounded, however long the job was.
struct JobCourse {
    /// Training stood still for a checkpoint.
    struct Stall {
        JobTime from, to;
    };
    /// How much of that time ranks have spent in collectives, by their flight recorders.
    struct Waits {
        JobTime from, to;
        std::vector<int> ranks = {};     ///< ascending
        std::vector<float> shares = {};  ///< of each, of 1
    };
    /// A rank ended as it should, and others may have gone on.
    struct RankEnd {
        int rank = 0, generation = 0;
        JobTime at;
    };
    std::vector<JobSpan> spans = {};  ///< in the order of time
    std::vector<Stall> stalls = {};
    std::vector<Waits> waits = {};
    std::vector<RankEnd> ends = {};

    /// From the moment at which it was published: a checkpoint that is written beside the training
    /// held it up at its beginning.
    void add_stall(JobTime published, double stall_seconds, std::optional<double> save_seconds);
    /// Since the look before it, if that was of the same generation, or since `begin`.
    void add_waits(JobTime at, JobTime begin, std::vector<int> ranks,
                   const std::vector<double>& shares);
};

inline constexpr std::size_t kMostStalls = 20'000, kMostWaitNumbers = 4'000'000;

}  // namespace autolaunch::launcher
