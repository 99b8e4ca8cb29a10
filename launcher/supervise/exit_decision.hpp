#pragma once
#include "causes/cause.hpp"
#include "spec/job_spec.hpp"

#include <string>

namespace autolaunch::launcher {

struct ExitDecision {
    int code = 0;
    std::string outcome;  ///< JobEnded::outcome
};

/// docs/exit-codes.md as a pure function: how a job ends whose last generation ended as `record`
/// says, and what was decided to follow. Null: every rank has finished.
ExitDecision decide_exit(const EndRecord* record, RestartAction next);

}  // namespace autolaunch::launcher
