#pragma once
#include "report/event.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// How a job ended, as far as its exit code needs it.
struct JobOutcome {
    std::optional<int>
        stop_signal;  ///< autolaunch was told to stop, by this signal, before any failure
    std::optional<int> cannot_start_code;  ///< a rank could not be started
    std::optional<std::string> lost_node;  ///< by name
    std::optional<RankExited> first_failure;
    bool every_rank_exited_zero = false;
    bool has_checkpoint = false;  ///< one was published in this run
    bool keeper_gone = false;
};

struct ExitDecision {
    int code = 0;
    std::string outcome;  ///< JobEnded::outcome
};

/// docs/exit-codes.md as a pure function.
ExitDecision decide_exit(const JobOutcome& outcome);

/// C of exit code C, 128 + N of signal N.
int exit_code_of(const RankExited& exited);
/// Neither exit code 0 nor an end that we asked for.
bool is_failure(const RankExited& exited);
/// The rank's end looks like the effect of `signal`: killed by it, or exit code 128 + signal, as
/// shells say it.
bool looks_stopped_by(const RankExited& exited, int signal);

}  // namespace autolaunch::launcher
