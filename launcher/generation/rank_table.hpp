#pragma once
#include "generation/transition_table.hpp"

namespace autolaunch::launcher {

/// Where the process of one rank is, in one generation.
enum class RankState {
    planned,
    running,
    cooperative,  ///< running, and has said that it stops by itself when it is told to
    finishing,    ///< was told to stop by itself
    saving,       ///< the same, and has heard it
    interrupted,  ///< got the signal by which the job was stopped, which is not SIGTERM
    leaving,      ///< was told that its generation is over, and can go on in the next one
    left,         ///< has left it, and waits for the next one; its process stays
    stopping,     ///< got SIGTERM
    killed,       ///< got SIGKILL
    ended,
};
inline constexpr int kRankStates = 11;

enum class RankEvent {
    started,
    start_failed,
    declared_cooperative,
    user_stop,       ///< a person or the scheduler wants the job to stop, by SIGTERM
    user_interrupt,  ///< the same by another signal: Ctrl-C, a terminal that is closed
    heard_stop,      ///< it says that it has heard the request to stop by itself
    no_answer,       ///< half of the grace is over, and the spec has a signal that it stops on
    insist,          ///< most of the grace after that is over
    peer_failed,     ///< another rank failed: this generation is over
    leave,           ///< the same, and this rank can go on in the next one
    has_left,        ///< it says that it has left it
    rejoined,        ///< the next one has begun, and it was told where that meets
    kill,            ///< grace is over, or there is no time for any
    exited,
};
inline constexpr int kRankEvents = 14;

enum class RankAction {
    none,
    send_stop_message,
    send_stop_signal,  ///< the one by which the job was stopped
    send_leave_message,
    send_term,
    send_kill,
};

using RankTransition = Transition<RankState, RankAction>;

/// The whole life of a rank's process, as one table.
RankTransition transition(RankState state, RankEvent event);

}  // namespace autolaunch::launcher
