#pragma once
#include "retention/left_run.hpp"
#include "retention/verdict.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The spec's words for one place of checkpoints.
struct CheckpointPlace {
    std::string place;  ///< a directory, or s3://…
    int keep = 0;       ///< the newest that stay; 0: the spec has not said
    std::int64_t keep_every = 0;
    int keep_best = 0;
    bool lower_is_better = true;
};

struct LeftCheckpoint {
    std::string name;
    std::int64_t step = 0;
    std::uint64_t bytes = 0;
    RetentionVerdict verdict;
};

/// What a place has, and why nothing of it is looked at further; empty: it is.
struct LeftCheckpoints {
    std::string place;
    std::string untouched = {};
    std::vector<LeftCheckpoint> all = {};
};

/// What decides besides the rules.
struct CheckpointSurroundings {
    std::vector<LeftRun> runs = {};       ///< one may write there, others go on from what is there
    std::vector<std::string> named = {};  ///< restore_from of the spec: these stay
    AskSlurm ask;
    std::int64_t now_s = 0;
    std::chrono::seconds older_than{0};  ///< where nobody is known who writes there
};

/// By the rules for keeping, the trainers' own (checkpoint/commit/retention.hpp), and only while no
/// job writes there: by its claim (writer.json), the run directories and Slurm. With `apply` what
/// goes is removed. Throws SystemError and Error where the place cannot be listed; one that is not
/// there has none. Blocks: on the place.
LeftCheckpoints collect_checkpoints(const CheckpointPlace& place,
                                    const CheckpointSurroundings& around, bool apply);

}  // namespace autolaunch::launcher
