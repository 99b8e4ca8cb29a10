#pragma once
#include "spec/job_spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Keys of the spec that were given and that nothing in this version acts on, so that nobody relies
/// on them unknowingly. What the trainer reads (distributed, checkpoint) and what a scheduler has
/// already granted (slurm_config) is not among them.
std::vector<std::string> unused_settings(const JobSpec& spec);

}  // namespace autolaunch::launcher
