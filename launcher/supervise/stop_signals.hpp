#pragma once
#include "spec/job_spec.hpp"

#include <vector>

namespace autolaunch::launcher {

/// The signals that stop the job: --signals-to-handle, else SIGTERM, SIGINT, SIGHUP and SIGQUIT.
std::vector<int> stop_signals(const JobSpec& spec);
bool stops_the_job(const JobSpec& spec, int signal);
/// All that an agent has a handler for.
std::vector<int> handled_signals(const JobSpec& spec);

}  // namespace autolaunch::launcher
