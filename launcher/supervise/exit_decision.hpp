#pragma once
#include "exit_codes/rank_exited.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// How a job ended, as far as its exit code needs it.
struct JobOutcome {
    std::optional<int>
        stop_signal;  ///< autolaunch was told to stop, by this signal, before any failure
    std::string stop_words = {};           ///< instead of "stopped by SIGTERM"; empty: that
    std::optional<int> cannot_start_code;  ///< a rank could not be started
    std::optional<std::string> lost_node;  ///< by name
    std::optional<RankExited> first_failure;
    bool requeue = false;        ///< restart.on wants that for its cause
    bool may_requeue = true;     ///< restart.on wants no stop where there is a checkpoint
    bool cannot_resume = false;  ///< it said that no restart could go on from its checkpoints
    bool every_rank_exited_zero = false;
    bool has_checkpoint = false;  ///< one was published in this run
    bool keeper_gone = false;
    bool ranks_hang = false;  ///< SIGKILL had no effect: they are left
};

struct ExitDecision {
    int code = 0;
    std::string outcome;  ///< JobEnded::outcome
};

/// docs/exit-codes.md as a pure function.
ExitDecision decide_exit(const JobOutcome& outcome);

}  // namespace autolaunch::launcher
