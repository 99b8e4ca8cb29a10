#pragma once
#include "flight/flight_summary.hpp"

#include <map>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

/// A rank for which the others wait in every step, although it always comes.
struct Straggler {
    int rank = 0;
    double busy = 0;    ///< its share of the time outside of collectives
    double others = 0;  ///< the median of all ranks
    bool operator==(const Straggler&) const = default;
};

/// How much of the time a rank spent in calls that others must join, as far back as its recorder
/// goes in each of its groups; nothing: it says too little. Pure.
std::optional<double> share_in_calls(const flight::RecordedRank& rank);

/// Ranks that take steps together wait for the slowest, which waits least. One look is chance, so a
/// rank counts that is far from the others in three looks in a row; it is told of again only after
/// many more. Pure.
class StragglerBook {
public:
    /// The looks that it takes, and those until it is said again.
    static constexpr int kLooks = 3, kSilence = 30;
    static constexpr double kFar = 0.15;  ///< of the time

    /// Of those that are to be told of now, the slowest first.
    std::vector<Straggler> see(const std::vector<flight::RecordedRank>& ranks);

private:
    std::map<int, int> looks_;  ///< in which a rank was far from the others, in a row
};

}  // namespace autolaunch::launcher
