#pragma once
#include "causes/cause.hpp"
#include "restart_policy/cause_policy.hpp"
#include "restart_policy/restart_history.hpp"
#include "spec/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// A generation that has ended, or is about to.
struct Situation {
    EndRecord record;
    int generation = 0;
    std::chrono::system_clock::time_point now;
    std::optional<std::int64_t> step;  ///< the newest that any rank has reported
    bool has_saved = false;            ///< it published a checkpoint
    std::chrono::milliseconds ran{0};  ///< the generation
    bool input_spent = false;          ///< what came in on stdin is not there for another one
    bool enough_nodes = false;    ///< the job may lose nodes, and goes on with those that are left
    bool others_suffice = false;  ///< there are nodes enough without the one that it ended on
};

struct Decision {
    RestartAction action = RestartAction::stop;
    bool counted = false;
    std::chrono::milliseconds delay{0};
    std::string account;  ///< of a restart: "1 of 3", "network: 2 of 5 in 6 h"
    std::string why;      ///< of a stop, a sentence; empty: restarts were never wanted
    PastEnd end;          ///< for the history
};

/// A program that reports no steps has made progress when it ran as long as this.
inline constexpr std::chrono::minutes kProgressByTime{5};

/// What follows. Pure.
Decision decide(const RestartSpec& restart, const RestartHistory& history,
                const Situation& situation);

}  // namespace autolaunch::launcher
