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

/// Of one job, over its requeues: `run_id` is the same. RUN_DIR/restarts.json.
struct RestartHistory {
    std::string run_id;
    std::vector<PastEnd> ends;  ///< oldest first
    bool operator==(const RestartHistory&) const = default;
};

std::string to_json(const RestartHistory& history);
/// Nothing where it is no such history. Pure.
std::optional<RestartHistory> restart_history_from(std::string_view json);

}  // namespace autolaunch::launcher
