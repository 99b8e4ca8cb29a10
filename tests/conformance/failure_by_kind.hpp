#pragma once
// What happens in every kind of collective when a rank aborts, does not come, calls something else
// or dies. Each kind fails in a part of the group made by split(), so that one group serves them
// all; at the end the group is aborted.
#include "comm/call.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <array>

namespace autolaunch::conformance {

/// send stands for a ring of sends and receives in a group.
inline constexpr std::array kAllKinds = {
    CollectiveKind::all_reduce, CollectiveKind::reduce,     CollectiveKind::broadcast,
    CollectiveKind::all_gather, CollectiveKind::all_to_all, CollectiveKind::reduce_scatter,
    CollectiveKind::gather,     CollectiveKind::scatter,    CollectiveKind::send};

void abort_in_each_kind(Communicator& comm);
void absent_rank_in_each_kind(Communicator& comm);
/// Kind, operation, type, size, root and counts, of collectives and of messages.
void each_mismatch_is_named(Communicator& comm);

/// The last rank dies while all ranks call `kind`; it does not return there.
void killed_rank_in(CollectiveKind kind, Communicator& comm);
template <CollectiveKind kind>
void killed_rank(Communicator& comm) {
    killed_rank_in(kind, comm);
}

}  // namespace autolaunch::conformance
