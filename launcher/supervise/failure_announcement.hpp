#pragma once
#include "allocation/roster.hpp"
#include "causes/cause.hpp"
#include "flight_view/flight_inquiry.hpp"
#include "report/event.hpp"
#include "supervise/generation_tally.hpp"

namespace autolaunch::launcher {

/// Why a generation failed, once all of its ranks have ended.
struct GenerationVerdict {
    const control::RankFailed* first = nullptr;  ///< the failure that counts; of the tally
    EndRecord record;
    std::string absent;          ///< RootCause::absent
    RankExited end_that_counts;  ///< for the exit code: of no rank that was asked to stop
    FlightFindings flight;
};

/// Over all nodes, with what the flight recorders said at the first failure. The tally has one.
GenerationVerdict judge_generation(const GenerationTally& tally, const Roster& roster,
                                   FlightInquiry& flight, int world_size);

/// What the screen and the events have of it. What follows from it is the caller's to say. Pure.
GenerationFailed announce_failure(const GenerationTally& tally, GenerationVerdict verdict);

}  // namespace autolaunch::launcher
