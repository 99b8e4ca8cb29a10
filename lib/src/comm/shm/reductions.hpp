#pragma once
// The collectives that reduce, through the slots.
#include "comm/shm/pieces.hpp"

namespace autolaunch::shm {

/// all_reduce, and reduce: only the root collects the result.
void reduce_to_readers(Pieces& pieces, const Collective& collective);
void reduce_scatter(Pieces& pieces, const Collective& collective);

}  // namespace autolaunch::shm
