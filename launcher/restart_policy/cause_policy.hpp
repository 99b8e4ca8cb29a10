#pragma once
#include "causes/cause.hpp"
#include "spec/job_spec.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What follows from one cause.
struct CausePolicy {
    Cause cause = Cause::internal;
    RestartAction action = RestartAction::stop;
    bool elsewhere = false;  ///< a restart is without the node where it ended
    /// Restarts are of the program's account: restart.max_restarts. Else `budget` and `window` are
    /// this cause's own.
    bool counts = true;
    std::optional<int> budget;           ///< restarts or requeues in all; nothing: no limit
    std::optional<WindowLimit> window;   ///< the same within a time; nothing: no limit
    std::chrono::milliseconds delay{0};  ///< before a restart
    double backoff = 1;  ///< each further one of this cause waits longer by it, until an hour
                         ///< went by without one
    bool stops_alike = false;  ///< the same error twice is not tried again
};

/// The job's policy, a row a cause. Where restarts are wanted at all (a number of them, or
/// restart.on), an operator's defaults; --max-restarts makes all causes alike, as torchrun has it.
/// Pure.
std::vector<CausePolicy> restart_policy(const RestartSpec& restart);
/// Whether any cause is answered by a restart.
bool wants_restarts(const RestartSpec& restart);
/// As a table for people, without the rows that are alike. Pure.
std::string policy_table(const RestartSpec& restart);

std::string_view name_of(RestartAction action);

}  // namespace autolaunch::launcher
