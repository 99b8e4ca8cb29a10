#pragma once
#include "base/environment.hpp"

#include <autolaunch/export.hpp>

#include <string>

namespace autolaunch {

/// A rank of autolaunch may start another launcher, whose processes inherit what the rank was told
/// and are none of its job: which launcher told this process last who it is.
enum class ToldBy {
    others,      ///< no rank of autolaunch is above it
    autolaunch,  ///< it is a rank, or of the rank's own processes
    sbatch,      ///< below a rank from here on: the script of another job, or salloc's shell
    srun,
    open_mpi,
    hydra,
};

/// By the environment alone. Pure.
AUTOLAUNCH_API ToldBy told_last(const Environment& environment);

/// The launchers that told the agent who it is, "slurm=4711.0:43543 pmix=prterun-node1-77@1
/// pmi=0", each where it did: a rank keeps it in AUTOLAUNCH_WITHIN. What differs from it below the
/// rank is of another launcher. Pure.
AUTOLAUNCH_API std::string launchers_above(const Environment& environment);

/// srun started this process, or one above it: no batch script and no shell of salloc. Pure.
AUTOLAUNCH_API bool is_srun_task(const Environment& environment);

}  // namespace autolaunch
