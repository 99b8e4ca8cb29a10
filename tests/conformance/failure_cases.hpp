#pragma once
// Cases after which the group is aborted.
#include <autolaunch/comm/communicator.hpp>

namespace autolaunch::conformance {

void abort_ends_everything(Communicator& comm);
void abort_wakes_others(Communicator& comm);
void abort_from_another_thread(Communicator& comm);
void absent_rank_times_out(Communicator& comm);
void different_counts_are_named(Communicator& comm);
void different_calls_are_named(Communicator& comm);
void different_roots_are_noticed_later(Communicator& comm);
void wrong_message_is_named(Communicator& comm);
void killed_rank_is_named(Communicator& comm);
void killed_rank_ends_large_all_reduce(Communicator& comm);

}  // namespace autolaunch::conformance
