#pragma once
#include "supervise/transition_table.hpp"

namespace autolaunch::launcher {

/// Where a node's agent is. The head decides as long as there is one.
enum class NodeState {
    idle,      ///< no rank is there; the head may start a generation
    running,   ///< ranks are there, whatever they were told
    orphaned,  ///< the head is gone: the ranks are being stopped, then the agent leaves
    doomed,    ///< nobody waits for the agent any more: ranks are killed, nothing starts, the head
               ///< may still say Finish
    left,
};
inline constexpr int kNodeStates = 5;

enum class NodeEvent {
    start,         ///< StartGeneration
    stop_by_user,  ///< StopRanks
    stop_failed,   ///< StopRanks, because another rank failed or a node was lost
    kill,          ///< KillRanks
    finish,        ///< Finish
    head_lost,
    keeper_gone,
    ranks_ended,  ///< no rank is left on the node
    grace_over,   ///< the node's own: only an orphan has one
    hung,         ///< long after SIGKILL
};
inline constexpr int kNodeEvents = 10;

enum class NodeAction {
    none,
    start_ranks,
    ask_ranks_to_stop,  ///< ranks that stop by themselves are told, others get SIGTERM
    terminate_ranks,    ///< SIGTERM to all
    orphan_ranks,       ///< the same; grace begins
    kill_ranks,
    await_release,  ///< a deadline for the head's Finish
    tell_ended,     ///< RanksEnded to the head
    name_hung,      ///< a warning names the processes that hang in the kernel
    leave,
};

using NodeTransition = Transition<NodeState, NodeAction>;

/// The whole life of a node's agent in a job, as one table.
NodeTransition transition(NodeState state, NodeEvent event);

}  // namespace autolaunch::launcher
