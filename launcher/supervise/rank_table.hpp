#pragma once
#include "supervise/transition_table.hpp"

namespace autolaunch::launcher {

/// Where the process of one rank is, in one generation.
enum class RankState {
    planned,
    running,
    cooperative,  ///< running, and has said that it stops by itself when it is told to
    finishing,    ///< was told to stop by itself
    stopping,     ///< got SIGTERM
    killed,       ///< got SIGKILL
    ended,
};
inline constexpr int kRankStates = 7;

enum class RankEvent {
    started,
    start_failed,
    declared_cooperative,
    user_stop,    ///< a person or the scheduler wants the job to stop
    peer_failed,  ///< another rank failed: this generation is over
    kill,         ///< grace is over, or there is no time for any
    exited,
};
inline constexpr int kRankEvents = 7;

enum class RankAction { none, send_stop_message, send_term, send_kill };

using RankTransition = Transition<RankState, RankAction>;

/// The whole life of a rank's process, as one table.
RankTransition transition(RankState state, RankEvent event);

}  // namespace autolaunch::launcher
