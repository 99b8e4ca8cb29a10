#pragma once
#include "allocation/allocation.hpp"
#include "stopping/slurm_job_record.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// The name of a step of srun, "4711.0", as scancel has to be told it; empty outside of one. Pure.
std::string step_name(const Allocation& allocation);

/// Whether the job still runs as it did when the step began: Slurm counts the steps of a job that
/// was requeued from 0 again. Pure.
bool may_end_step(const std::optional<SlurmJobRecord>& record, int restarts);

/// For the keeper of a node whose end Slurm does not see, for its slurmstepd is gone: srun would
/// wait for that node's task for ever. Waits until the tasks of the other nodes have ended, whose
/// exit code srun then takes, and ends the step. Does nothing outside Slurm. Blocks: 25 s at most.
void end_unseen_step(const Allocation& own, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
