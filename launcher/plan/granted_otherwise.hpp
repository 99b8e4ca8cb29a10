#pragma once
#include "allocation/allocation.hpp"
#include "spec/job_spec.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What slurm_config asks for and the allocation around us has otherwise, a line each: within an
/// allocation it changes nothing, and the user may believe that it does. Pure.
std::vector<std::string> granted_otherwise(const SlurmSpec& asked,
                                           const EnvironmentMap& environment);

/// The time limit that slurm_config asks for, where this is a job of Slurm's whose own limit the
/// environment does not tell: squeue can be asked. Pure.
std::optional<std::chrono::seconds> uncompared_time_limit(const SlurmSpec& asked,
                                                          const EnvironmentMap& environment);
/// The line about it, by squeue's word for the job's limit ("4:00:00", "UNLIMITED"; empty: nobody
/// told). Empty where they agree. Pure.
std::string limit_granted_otherwise(std::chrono::seconds asked, const std::string& granted);

}  // namespace autolaunch::launcher
