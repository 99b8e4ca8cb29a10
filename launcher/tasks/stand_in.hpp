#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct StandInOptions {
    std::string address;  ///< task_address()
    int local_task = 0;
    std::vector<std::string> environment;  ///< of this task, "NAME=value"
    std::vector<int> cpus;                 ///< that this task may use
    std::chrono::milliseconds agent_timeout{60'000};
    int keeper_gone = -1;   ///< readable: nobody waits for us any more
    int unread_input = -1;  ///< a copy of the job's stdin that must not pile up; -1: none
};

/// What a task does that is not its node's agent: starts the rank that the agent describes as its
/// own child, tells the agent of its end and of the signals that reach this task, does so again for
/// the next generation, and returns the exit code that the agent names when the job is over
/// (docs/adr/0008-one-task-a-rank.md). So the rank runs with its task's limits, cgroups and
/// devices, and the scheduler's accounting is right.
///
/// When the agent or the keeper is gone, it ends the rank and all it left, and returns 128 +
/// SIGKILL; 128 + N when stop signal N reached this task before, or before the agent came.
///
/// Threads: the main one, with no other in the process. Blocks: until then. Throws TimeoutError
/// when there is no agent by `agent_timeout`, Error with the agent's reason when it refuses us.
int run_stand_in(const StandInOptions& options);

}  // namespace autolaunch::launcher
