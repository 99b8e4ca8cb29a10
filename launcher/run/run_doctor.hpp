#pragma once
#include "allocation/allocation.hpp"
#include "doctor/doctor_options.hpp"
#include "doctor/node_sources.hpp"
#include "spec/job_spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

struct DoctorRequest {
    DoctorOptions options;
    bool json = false;
    JobSpec spec;  ///< folders, and how nodes meet; the default where no spec is given
    std::string version;
};

/// What the job of `spec` writes to: checkpoints, run directory, scratch. Pure.
std::vector<StorageFolder> folders_of(const JobSpec& spec, const EnvironmentMap& environment);

/// `autolaunch doctor`: an exit code of docs/exit-codes.md. Alone, or under srun with the job's
/// other nodes, whose head prints for all. Throws UsageError for options, Error where nodes cannot
/// meet. Blocks: about ten seconds a node.
int run_doctor(const DoctorRequest& request, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
