#pragma once
#include "control/control_message.hpp"
#include "generation/generation.hpp"

#include <autolaunch/error.hpp>

#include <vector>

namespace autolaunch::launcher {

// What a node tells the head of a generation, as messages. Each lacks the generation's number, and
// how long ago it happened: the caller's to say.

/// All ranks run. From now on the generation watches where they are.
control::GenerationRunning running_report(const LaunchPlan& plan, Generation& generation);

/// Which exit code a start has that failed with `error`, and whether another try may help. A rank
/// was to be started where the generation is there; else its sockets were to be opened (null).
control::StartFailed start_failed_report(const LaunchPlan& plan, const Generation* generation,
                                         const Error& error);

/// No rank is left; `with_ends` says how each ended.
control::RanksEnded ranks_ended_report(const LaunchPlan& plan, Generation& generation,
                                       bool with_ends);

/// In parts of control::kFlightRanks; one without ranks where there are none.
std::vector<control::FlightRead> flight_reports(std::vector<flight::RecordedRank> ranks);

}  // namespace autolaunch::launcher
