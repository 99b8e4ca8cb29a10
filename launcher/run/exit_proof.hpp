#pragma once
#include "allocation/allocation.hpp"
#include "plan/launch_plan.hpp"
#include "remains/job_remains.hpp"
#include "report/console.hpp"
#include "supervise/run_directory.hpp"

namespace autolaunch::launcher {

/// What the end of a node's part is to be proved with.
struct ExitProof {
    const LaunchPlan& plan;
    const RunDirectory& run_dir;
    const JobTraces& traces;
    const EnvironmentMap& environment;
    Console& console;
    bool drain = false;  ///< --drain: the node, where something is left
};

/// Looks for what is left of the job here, writes exit.json, and says on the console what does not
/// go, with the command that drains the node. Blocks for NVIDIA's driver (10 s at most) after a job
/// on its GPUs that ran for seconds.
void prove_exit(const ExitProof& proof, int exit_code);

/// What is to be done with a node on which this is left, and with `drain` does it.
DrainWord drain_for(const std::vector<Remnant>& left, const std::string& run_id, bool drain,
                    const EnvironmentMap& environment, const std::string& hostname);
std::string describe_drain(const DrainWord& word);

}  // namespace autolaunch::launcher
