#pragma once
// Who is in which part of a split group. Pure.
#include <cstddef>
#include <span>
#include <vector>

namespace autolaunch {

struct ColorAndKey {
    int color = 0;
    int key = 0;
};

struct SplitPlan {
    int rank = -1;                  ///< in the new group; -1 for a negative color
    std::vector<int> parent_ranks;  ///< of the new group's ranks, in their order
};

/// The part of `rank` when wishes[r] is what rank r asked for: its color's ranks, ordered by key,
/// then by rank.
SplitPlan plan_split(std::span<const ColorAndKey> wishes, int rank);

}  // namespace autolaunch
