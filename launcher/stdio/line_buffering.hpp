#pragma once
#include "plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the decision depends on.
struct OutputFacts {
    bool line_buffered = true;    ///< logging.line_buffered
    bool terminal = false;        ///< logging.stdio is pty
    bool none_preloaded = false;  ///< trainer.env sets LD_PRELOAD to nothing
    std::string library = {};     ///< autolaunch-lines.so; empty: it is not beside the program
    std::string against = {};     ///< why_not_preloaded()
};

/// Pure.
OutputChoice choose_output(const OutputFacts& facts);

/// The variables that follow from it, with reasons; `found` is what the rank has otherwise, which
/// wins: a library comes behind the user's. Pure.
std::vector<VariableChoice> output_environment(const OutputChoice& choice,
                                               const EnvironmentMap& found);

/// Looks at the ranks' programs and decides; each rank's environment has the variables then, and
/// the plan says what holds for the first, or for one into which the library is preloaded. Reads
/// the disk.
void plan_output(LaunchPlan& plan, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
