#include "comm/mpi/pairs.hpp"

#include <algorithm>

namespace autolaunch::mpi {

std::optional<Pair> pair_of(int rank, int width, int ranks) {
    const int group = rank / width;
    const bool is_lower = group % 2 == 0;
    const int own = group * width;
    const int other = is_lower ? own + width : own - width;
    if (other >= ranks)
        return std::nullopt;
    return Pair{is_lower, own, std::min(width, ranks - own), other, std::min(width, ranks - other)};
}

// The i-th of one group and the i-th of the other exchange; what is left of the larger one takes
// turns.
Doubling::Doubling(const Pair& pair, int rank) {
    const int index = rank - pair.own_first;
    receive_from = pair.other_first + index % pair.other_count;
    send_first = pair.other_first + index;
    send_stride = pair.own_count;
    send_end = pair.other_first + pair.other_count;
}

int leader_of(int first, int count, int root) {
    return root >= first && root < first + count ? root : first;
}

}  // namespace autolaunch::mpi
