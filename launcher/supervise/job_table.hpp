#pragma once
#include "generation/transition_table.hpp"

namespace autolaunch::launcher {

enum class JobState {
    starting,  ///< a generation's ranks are being started
    running,
    stopping,    ///< a person or the scheduler wants the job to stop; no restart
    restarting,  ///< a rank failed: the others are being stopped, then a new generation starts
    failing,     ///< a rank failed: the others are being stopped, then the job is over
    waiting,     ///< between two generations
    finished,
};
inline constexpr int kJobStates = 7;

enum class JobEvent {
    started,               ///< all ranks run
    rank_failed,           ///< the first failure of a generation, and a restart is left
    rank_failed_for_good,  ///< the same, and none is left or none would help
    stop_asked,
    stop_asked_again,
    keeper_gone,  ///< nobody waits for us any more
    grace_over,
    all_ended,  ///< no rank of the generation is left
    wait_over,
    node_lost,    ///< a node with its ranks is gone
    node_missed,  ///< the same, and the job goes on without it
    renew,        ///< nothing failed: the job is to go on with other nodes
    hung,         ///< ranks are there long after SIGKILL
    // All have ended, and the failure that counts is another one than the first that was heard of:
    no_restart,         ///< after it there is none
    restart_after_all,  ///< after it there is one
};
inline constexpr int kJobEvents = 15;

enum class JobAction {
    none,
    ask_ranks_to_stop,  ///< as a user stop: ranks that stop by themselves are told, others get
                        ///< SIGTERM; grace begins
    terminate_ranks,    ///< SIGTERM to all; grace begins
    ask_ranks_to_save,  ///< as ask_ranks_to_stop, and another generation follows
    kill_ranks,
    wait_to_restart,
    start_generation,
    finish,
    give_up,  ///< finish, without the ranks
};

using JobTransition = Transition<JobState, JobAction>;

/// The whole life of a job, as one table.
JobTransition transition(JobState state, JobEvent event);

}  // namespace autolaunch::launcher
