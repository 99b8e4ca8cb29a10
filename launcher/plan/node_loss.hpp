#pragma once
#include "allocation/allocation.hpp"
#include "allocation/srun_process.hpp"
#include "spec/job_spec.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What decides whether a job outlives a node, besides the job.
struct StepStart {
    std::optional<SrunProcess> srun = {};          ///< nothing: it is not on this machine
    std::optional<std::string> batch_script = {};  ///< nothing: there is none, or Slurm was silent
    std::optional<long long> kill_on_bad_exit = {}, wait_time = {};  ///< of slurm.conf
};
/// But for the batch script, which batch_script_question() asks for. Blocks: on files.
StepStart look_at_step(const EnvironmentMap& environment);
/// For a SlurmCommand; empty outside Slurm.
std::vector<std::string> batch_script_question(const EnvironmentMap& environment);

struct NodeLossWords {
    std::vector<std::string> warnings;  ///< what forbids it, with what to change
    std::vector<std::string> notes;     ///< what cannot be seen from here
};
/// What its scheduler, or who started it, does to a job that asks to go on without a lost node
/// (--nnodes MIN:MAX, spares). Empty where it does not ask, and where nothing forbids it. `nodes`
/// have joined. Pure.
NodeLossWords node_loss_words(const JobSpec& spec, int nodes, const Allocation& allocation,
                              const EnvironmentMap& environment, const StepStart& step);

}  // namespace autolaunch::launcher
