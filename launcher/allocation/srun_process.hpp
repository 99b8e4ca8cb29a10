#pragma once
#include "allocation/allocation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The srun that started this step: its command line, and its environment as far as it may be read.
struct SrunProcess {
    std::vector<std::string> words;
    EnvironmentMap environment;
};

/// Looks for it among this machine's processes, by the port on which it listens for its tasks
/// (SLURM_SRUN_COMM_PORT). Slurm itself tells nobody how a step was started. Nothing: it runs on
/// another machine, as where one types srun on a login node. Blocks: on /proc.
std::optional<SrunProcess> find_srun(const EnvironmentMap& environment,
                                     const std::string& proc_root = "/proc");

}  // namespace autolaunch::launcher
