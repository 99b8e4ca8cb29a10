#pragma once
#include "allocation/allocation.hpp"

#include <vector>

namespace autolaunch::launcher {

/// What the scheduler gave to one of its tasks on this node.
struct TaskGrant {
    EnvironmentMap environment;
    std::vector<int> cpus;  ///< sorted
};

/// The node's allocation, from that of one task and what all its tasks were given, by local task:
/// the GPUs of all, in the order of tasks, so that a task's only GPU is that of the rank with its
/// number; and each task's CPUs, where they differ. Pure. Throws Error{invalid_argument} as
/// read_allocation().
Allocation merge_tasks(Allocation own, const std::vector<TaskGrant>& tasks);

/// The CPUs of all tasks, sorted.
std::vector<int> cpus_of_all(const std::vector<TaskGrant>& tasks);

}  // namespace autolaunch::launcher
