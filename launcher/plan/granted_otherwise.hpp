#pragma once
#include "allocation/allocation.hpp"
#include "spec/job_spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What slurm_config asks for and the allocation around us has otherwise, a line each: within an
/// allocation it changes nothing, and the user may believe that it does. Pure.
std::vector<std::string> granted_otherwise(const SlurmSpec& asked,
                                           const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
