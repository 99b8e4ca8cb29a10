#pragma once
#include "generation/transition_table.hpp"

namespace autolaunch::launcher {

/// Where a node's agent is. The head decides as long as there is one.
enum class NodeState {
    idle,              ///< no rank is there; the head may start a generation
    starting,          ///< ranks are being started, and none has failed
    running,           ///< ranks are there and none is started any more, whatever they were told
    doubting,          ///< the same; one failed, perhaps by a stop that we have not heard of yet
    failing,           ///< the same; the head knows that one failed or could not be started
    ending,            ///< all have ended; what they left behind is being ended and shown
    orphaned,          ///< the head is gone: the ranks are being stopped, then the agent leaves
    departing,         ///< the same, and all have ended: as ending
    doomed,            ///< nobody waits for the agent any more: the ranks are killed
    awaiting_release,  ///< the same, and all have ended: nothing starts, the head may still say
                       ///< Finish, until a deadline
    left,
};
inline constexpr int kNodeStates = 11;

enum class NodeEvent {
    start,           ///< StartGeneration
    all_started,     ///< no rank of the generation is left to be started
    start_failed,    ///< a rank could not be started, or go on; the head was told
    rank_failed,     ///< a rank ended as nobody asked it to
    rank_in_doubt,   ///< the same, but as if by a stop signal, which may reach us later than it
    doubt_over,      ///< no stop signal came
    stop_signalled,  ///< one came, or this node's task was signalled; the head was told
    stop_by_user,    ///< StopRanks
    stop_failed,     ///< StopRanks, because another rank failed or a node was lost
    leave,           ///< LeaveGeneration
    kill,            ///< KillRanks
    finish,          ///< Finish
    head_lost,
    keeper_gone,
    ranks_ended,  ///< no rank is left on the node
    cleared,      ///< nor anything that they left behind
    grace_over,   ///< the node's own: only an orphan has one
    hung,         ///< long after SIGKILL
};
inline constexpr int kNodeEvents = 18;

enum class NodeAction {
    none,
    start_ranks,
    tell_running,        ///< GenerationRunning to the head
    wait_in_doubt,       ///< a deadline for the stop signal
    glance_at_signals,   ///< a short one, for a signal that has come and was not taken yet
    report_failure,      ///< RankFailed to the head
    ask_ranks_to_stop,   ///< ranks that stop by themselves are told, others get SIGTERM
    terminate_ranks,     ///< SIGTERM to all
    ask_ranks_to_leave,  ///< ranks that can go on in the next generation; SIGTERM to others
    orphan_ranks,        ///< the same; grace begins
    kill_ranks,
    clear_up,       ///< ends what the ranks left behind, and shows the rest of their output
    await_release,  ///< a deadline for the head's Finish
    tell_ended,     ///< RanksEnded to the head
    tell_and_await_release,
    name_hung,  ///< a warning names the processes that hang in the kernel
    leave,
};

using NodeTransition = Transition<NodeState, NodeAction>;

/// The whole life of a node's agent in a job, as one table.
NodeTransition transition(NodeState state, NodeEvent event);
/// The generation has not ended in this state, by what the table does in it.
bool has_ranks(NodeState state);

}  // namespace autolaunch::launcher
