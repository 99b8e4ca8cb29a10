#pragma once
#include "run/run_doctor.hpp"

namespace autolaunch::launcher {

/// `autolaunch doctor --container IMAGE`, or `--container spec` for that of the spec: an exit code.
/// Throws UsageError where the spec has none, Error where nothing can start it. Blocks: as the
/// runtime does, a minute at most.
int run_container_doctor(const DoctorRequest& request, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
