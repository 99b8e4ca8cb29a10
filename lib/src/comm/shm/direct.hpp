#pragma once
// Collectives without slots: every rank reads and writes the others' buffers where they are.
#include "comm/shm/allocations.hpp"
#include "comm/shm/pieces.hpp"

namespace autolaunch::shm {

/// Whether ranks ask each other for the direct way before such a call, once something was
/// allocated. The same answer on all ranks: the ask takes one piece of its own, and small calls are
/// quicker without.
bool asks_for_direct(const CollectiveCall& call) noexcept;

/// Runs the call when every rank's buffers are where the others need them, in memory from
/// allocate(): no other will do, not even between threads, since a rank that fails may free it
/// while the others still use it. The ranks meet twice: when all have said where their buffers are,
/// and when all are done with them. The blocks of an all_to_all come with the first of the two when
/// they are short on all ranks, since only then do all know. False when a rank's buffers are
/// elsewhere; the call then goes on behind the piece that the ask took.
///
/// What must be reachable: what all_reduce, reduce and all_to_all in place read and write; what
/// reduce_scatter, all_gather, scatter, broadcast and all_to_all read; what gather writes at the
/// root.
bool run_direct(Pieces& pieces, Collective& collective, const Allocations& allocations);

}  // namespace autolaunch::shm
