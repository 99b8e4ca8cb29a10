#pragma once
#include "allocation/allocation.hpp"
#include "control/job_key.hpp"

namespace autolaunch::launcher {

/// In Kubernetes: throws RendezvousError where nothing can carry the job's key from pod to pod,
/// which every pod sees by itself and at once: no key is given, no MUNGE runs, and the folder of
/// the run directory is on a file system of this pod alone.
void check_key_reaches_pods(const KeyPlan& plan, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
