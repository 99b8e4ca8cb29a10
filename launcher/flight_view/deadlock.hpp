#pragma once
#include "flight_view/flight_picture.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Two groups of which each waits for the other: ranks that wait in `one` have not entered what
/// others wait for in `other`, and the other way round.
struct Deadlock {
    const FlightGroup* one = nullptr;
    const FlightGroup* other = nullptr;
    std::vector<int> in_one, in_other;  ///< ranks that hold the other one up, ascending
};

/// The first of them; none: `one` is null. Looks at the 8 groups that tell most. Pure.
Deadlock find_deadlock(const FlightPicture& picture);

}  // namespace autolaunch::launcher
