#pragma once
#include "allocation/tasks.hpp"
#include "tasks/stand_ins.hpp"

#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// Where the scheduler started several of us on this node, one for each rank
// (docs/adr/0008-one-task-a-rank.md).

/// This process is not the node's agent: it stands in for it.
bool is_stand_in(const Allocation& allocation);
/// The same by the environment alone, for errors that all tasks of a node see and one should tell.
bool looks_like_stand_in(const EnvironmentMap& environment);
/// srun started this one on another than the first node, by the environment alone: it was given the
/// same command line, and the first node tells what is wrong with that.
bool looks_like_later_node(const EnvironmentMap& environment);
/// Does, until the job is over; the task's exit code. Splits this process in two as start_keeper()
/// does.
int serve_as_stand_in(const Allocation& allocation, const EnvironmentMap& environment);

/// All tasks of this node, with what they were given.
struct NodeTasks {
    std::unique_ptr<StandIns> stand_ins;  ///< none where this is the only one
    Allocation allocation;                ///< of the node
    std::vector<int> cpus;                ///< of all tasks
};

/// The agent's side. Throws RendezvousError when some do not come. `address`: task_address_of(),
/// from before the keeper was started.
NodeTasks gather_tasks(const Allocation& own, const EnvironmentMap& environment,
                       const std::string& address, int cancel_fd);

/// Where the tasks of this node meet. Empty where there is but one.
std::string task_address_of(const Allocation& allocation);

}  // namespace autolaunch::launcher
