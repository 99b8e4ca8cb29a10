#pragma once
// A group's calls on their way into the flight recorder.
#include "comm/call.hpp"
#include "flight/flight_recorder.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <memory>
#include <string>

namespace autolaunch {

/// What the recorder keeps of a call. `device`: its backend returns before the call is done.
FlightCall flight_call(const CollectiveCall& call, DeviceType device) noexcept;
/// Of what is no CollectiveCall: barrier, split, allocate, shrink.
inline FlightCall flight_call(flight::Kind kind, std::size_t bytes = 0) noexcept {
    return {.kind = kind, .bytes = bytes};
}

/// Within a catch clause: throws what was caught again. A TimeoutError or Error{mismatch} then
/// names this rank's last calls, which are what one compares between ranks.
[[noreturn]] void rethrow_with_calls(const FlightRing& ring);

/// Work that a device has not done yet: its entry is over when somebody asks for it.
Work record_end(Work work, std::shared_ptr<FlightRing> ring,
                std::vector<FlightRing::Entry> entries);

}  // namespace autolaunch
