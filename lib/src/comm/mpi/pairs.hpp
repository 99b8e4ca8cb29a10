#pragma once
// Who talks to whom where groups of neighbouring ranks become one, pair by pair: after the step of
// `width` 1 the groups are {0, 1}, {2, 3}, …, after that of 2 {0 … 3}, …; the last group may be
// smaller or alone. Sums taken so are ((0 + 1)
// + (2 + 3)) + …, the order of reduce_elements(). Pure.
//
// The algorithms are recursive doubling and the binomial tree: Thakur, Rabenseifner, Gropp,
// "Optimization of Collective Communication Operations in MPICH", 2005. Where ranks are no power of
// two a rank of the last group serves several.
#include <optional>

namespace autolaunch::mpi {

/// The groups that meet in one step, as a rank sees them.
struct Pair {
    bool own_is_lower;
    int own_first, own_count;
    int other_first, other_count;
};

/// Nothing when the rank's group stays alone in this step. `width` is a power of two.
std::optional<Pair> pair_of(int rank, int width, int ranks);

/// Recursive doubling: every rank of both groups gets the other group's sum.
struct Doubling {
    Doubling(const Pair& pair, int rank);
    int receive_from;
    /// To send_first, send_first + send_stride, … below send_end.
    int send_first, send_stride, send_end;
};

/// The tree: one rank speaks for each group, the root where it is in it.
int leader_of(int first, int count, int root);

}  // namespace autolaunch::mpi
