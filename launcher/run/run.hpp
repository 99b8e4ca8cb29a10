#pragma once
#include "plan/launch_plan.hpp"
#include "run/job_witness.hpp"
#include "run/start_gate.hpp"
#include "spec/job_spec.hpp"
#include "spec/sweep_spec.hpp"

#include <string>

namespace autolaunch::launcher {

/// What would be started here and now: reads the allocation from `environment` and the machine's
/// topology. Throws Error.
LaunchPlan plan_here(const JobSpec& spec, const EnvironmentMap& environment);

/// The same for `spec.resources.nodes` machines like the one whose topology is saved in `file`.
LaunchPlan plan_elsewhere(const JobSpec& spec, const EnvironmentMap& environment,
                          const std::string& file);

/// `autolaunch run`, from a spec to an exit code. `environment` is the program's own; `version`
/// goes into the banner; `drain` asks for a node to be drained where something of the job does not
/// go. `sweep`: whose element the job is, if it is one. Throws Error before anything is started.
///
/// Splits the process (spawn/keeper.hpp): it returns in the agent only. Threads: the main thread,
/// before any other. Blocks: until the job is over.
int run_job(const JobSpec& spec, const EnvironmentMap& environment, const std::string& version,
            bool drain, const StartGate& gate = {}, const JobWitness& witness = {},
            const SweepSpec& sweep = {});

}  // namespace autolaunch::launcher
