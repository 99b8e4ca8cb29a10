#pragma once
#include "allocation/allocation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct SlurmNodes {
    std::optional<long long>
        step;  ///< srun started us in it; nothing: a batch script, an interactive step, a shell
    std::vector<std::string>
        names;          ///< of the step, or of the job outside a step; in node-rank order
    int node_rank = 0;  ///< this machine's index there
    std::optional<int> tasks_on_node;  ///< that the step has here
};

/// `node_name` is this machine's. Throws Error{invalid_argument} naming the variable.
SlurmNodes read_slurm_nodes(const EnvironmentMap& environment, const std::string& node_name);

/// The step that srun started us in, as far as the variables tell. A job that was submitted from
/// inside a step inherits that step's variables; Slurm sets SLURM_NNODES and SLURM_NTASKS anew in
/// every task, which tells them apart.
std::optional<long long> read_srun_step(const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
