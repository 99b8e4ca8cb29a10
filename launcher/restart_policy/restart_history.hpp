#pragma once
#include "causes/cause.hpp"
#include "spec/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// How a generation ended, and what followed.
struct PastEnd {
    int generation = 0;
    std::chrono::system_clock::time_point at;
    Cause cause = Cause::internal;
    std::string node = {};             ///< where it began; empty: no node's doing
    std::string signature;             ///< error_signature()
    std::optional<std::int64_t> step;  ///< the newest that any rank had reported
    bool made_progress = false;        ///< it came to a step
    RestartAction action = RestartAction::stop;
    bool elsewhere = false;  ///< what followed is without `node`
    bool counted = false;    ///< a restart of restart.max_restarts
    bool operator==(const PastEnd&) const = default;
};

/// A node was lost, a check found it unfit, or somebody has taken it back into the job.
struct NodeWord {
    std::string node;
    std::string why = {};  ///< what was found; of one that is lost or taken back empty
    std::chrono::system_clock::time_point at;
    bool operator==(const NodeWord&) const = default;
};

/// Of one job, over its requeues: `run_id` is the same. RUN_DIR/restarts.json.
struct RestartHistory {
    std::string run_id;
    std::vector<PastEnd> ends;                         ///< oldest first
    std::vector<NodeWord> unfit = {};                  ///< found so by checks, oldest first
    std::vector<NodeWord> lost = {};                   ///< the newest loss of each node
    std::vector<NodeWord> taken_back = {};             ///< what was before that counts no more
    std::optional<std::int64_t> checkpoint_step = {};  ///< the newest that any start published
    bool operator==(const RestartHistory&) const = default;
};

std::string to_json(const RestartHistory& history);
/// Nothing where it is no such history. Pure.
std::optional<RestartHistory> restart_history_from(std::string_view json);

}  // namespace autolaunch::launcher
