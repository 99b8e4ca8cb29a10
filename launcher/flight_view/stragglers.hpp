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
    /// Looks after which it is not waited any longer for it to catch up. Those in which it is
    /// neither far nor near do not count, nor do they begin the count anew.
    static constexpr int kLooksThatLast = 6;
    static constexpr double kFar = 0.15, kNear = 0.075;  ///< of the time

    /// Of those that are to be told of now, the slowest first.
    std::vector<Straggler> see(const std::vector<flight::RecordedRank>& ranks);
    /// The slowest of those that have been slow for kLooksThatLast, by the newest look.
    std::optional<Straggler> lasting() const { return lasting_; }

private:
    std::map<int, int> looks_;  ///< in which a rank was far from the others, in a row
    std::map<int, int> far_;    ///< the same, since it was near the others last
    std::optional<Straggler> lasting_;
};

}  // namespace autolaunch::launcher
