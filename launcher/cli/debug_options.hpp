#pragma once
#include "cli/options.hpp"
#include "spec/job_spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// --stdin, --debug-rank, --gdb and --wrap. Pure; throws UsageError.
void apply_debug_options(const JobOptions& options, JobSpec& spec, std::vector<std::string>& notes);

}  // namespace autolaunch::launcher
