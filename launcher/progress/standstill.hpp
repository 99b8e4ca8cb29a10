#pragma once
#include "progress/rank_activity.hpp"
#include "progress/step_watch.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What is known of a job whose next step is overdue.
struct StandstillFacts {
    StepWatch::Overdue overdue;
    std::vector<RankActivity> activities;  ///< of the ranks that are there, in any order
    std::vector<int> in_collective =
        {};                ///< that wait for others in one, by their flight recorders
    int silent_nodes = 0;  ///< that have not said what their ranks do
    /// Since something moved on the node where that is shortest ago; nothing: not known.
    std::optional<StepWatch::Time> quiet = {};
};

struct Standstill {
    /// Other nodes go on: only there nothing is printed, read or sent. Or data still comes that
    /// ranks may wait for.
    bool moves_elsewhere = false;
    /// It will not end by itself. False: a rank works, and may come to its next step.
    bool sure = false;
    std::string headline;            ///< "no step for 4.1 s, where one takes 0.3 s"
    std::vector<int> ranks;          ///< that others wait for, ascending; empty: nobody knows
    std::vector<std::string> lines;  ///< what those do, a sentence each; the last counts the rest
    bool is_stopped = false;         ///< SIGSTOP holds one of them
    bool is_traced = false;          ///< a debugger holds one of them
};

/// Who spins in a collective only waits. When all others stand still as well, nobody is left who
/// could go on; a rank that works, or that a disk holds, is given the time of `overdue.far`, one
/// that is stopped 5 s. Pure.
Standstill judge_standstill(const StandstillFacts& facts);

/// Whether that is to end the generation, after `limit` without a step. By a limit of the user's
/// (`told`) also where a rank works; by ours it must be sure, far beyond what is usual, by steps,
/// and nobody may hold a rank with SIGSTOP. Who has a debugger at a rank is never disturbed. Pure.
bool ends_generation(const Standstill& found, const StepWatch::Overdue& overdue,
                     StepWatch::Time limit, bool told);

}  // namespace autolaunch::launcher
