#pragma once
#include "flight/flight_summary.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Where one rank is in one group.
struct FlightMember {
    int rank = 0, place = 0;
    bool ended = false, in_use = false;
    std::uint64_t entered = 0, finished = 0;        ///< sequences of collectives
    const flight::RecordedCall* current = nullptr;  ///< the oldest collective that is not finished
    const flight::RecordedCall* last = nullptr;  ///< the newest finished collective that is known
    const flight::RecordedCall* message =
        nullptr;  ///< the oldest send or receive that is not finished
    const flight::RecordedGroup* group = nullptr;
};

/// Ranks whose calls with one sequence are alike.
struct FlightParty {
    const flight::RecordedCall* call = nullptr;
    std::vector<int> ranks;  ///< ascending
};

struct FlightGroup {
    std::uint64_t id = 0;
    std::string name, backend;
    int size = 0;
    std::uint64_t all_finished = 0;  ///< every member has finished the collectives up to this one
    std::vector<FlightMember> members;  ///< by place
    std::vector<int> unknown_places;    ///< nobody says anything of them
    std::optional<std::uint64_t>
        stuck;  ///< the first collective that a member has entered and not finished
    std::int64_t stuck_us = -1;    ///< how long the first that entered it has waited
    std::uint64_t differs_at = 0;  ///< the first collective that members call differently; 0: none
    std::vector<FlightParty> parties;  ///< of it, the largest first
};

/// What all ranks' flight recorders say together. Points into what it was made of.
struct FlightPicture {
    std::vector<FlightGroup> groups;  ///< those that tell most first
    std::vector<std::pair<std::string, std::vector<int>>>
        without;  ///< ranks that have nothing to say, by the reason
};

/// Numbers that no recorder has, from a node that is out of its mind. To be called first.
void drop_impossible_calls(std::vector<flight::RecordedRank>& ranks);
/// Pure. `ranks` must outlive the picture; the order of ranks does not matter.
FlightPicture draw_flight_picture(const std::vector<flight::RecordedRank>& ranks);
FlightPicture draw_flight_picture(std::vector<flight::RecordedRank>&& ranks) = delete;

/// The members that have not entered the stuck collective, and those that are past it.
std::vector<const FlightMember*> members_behind(const FlightGroup& group);
std::vector<const FlightMember*> members_ahead(const FlightGroup& group);

/// Those that have been in a call that others must join for that long, ascending.
std::vector<int> ranks_in_calls(const FlightPicture& picture, std::chrono::milliseconds at_least);

}  // namespace autolaunch::launcher
