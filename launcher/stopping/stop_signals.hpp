#pragma once
#include "exit_codes/rank_exited.hpp"
#include "spec/job_spec.hpp"

#include <vector>

namespace autolaunch::launcher {

/// The signals that stop the job: --signals-to-handle, else SIGTERM, SIGINT, SIGHUP and SIGQUIT.
std::vector<int> stop_signals(const JobSpec& spec);
/// restart.stop_signal; 0: it is SIGTERM.
int own_stop_signal(const JobSpec& spec);
bool stops_the_job(const JobSpec& spec, int signal);
/// So a rank ends that one of them has reached.
bool looks_like_a_stop(const RankExited& ended, const JobSpec& spec);
/// All that an agent has a handler for.
std::vector<int> handled_signals(const JobSpec& spec);

}  // namespace autolaunch::launcher
