#pragma once
#include "render/rendered_file.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the scripts have to know of a node. Whole paths.
struct SlurmScriptPlaces {
    std::string program;    ///< autolaunch, as every node has it
    std::string textfiles;  ///< node_exporter's --collector.textfile.directory
    std::string gpu_jobs;   ///< dcgm-exporter's DCGM_HPC_JOB_MAPPING_DIR
};

/// Prolog, Epilog and HealthCheckProgram for POSIX's sh, and the lines of slurm.conf for them.
/// Throws Error for a path that a script could not have. Pure.
std::vector<RenderedFile> slurm_scripts(const SlurmScriptPlaces& places);

}  // namespace autolaunch::launcher
