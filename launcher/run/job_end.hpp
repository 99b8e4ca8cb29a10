#pragma once
#include "allocation/allocation.hpp"
#include "plan/launch_plan.hpp"
#include "report/reporter.hpp"
#include "run/job_witness.hpp"
#include "spec/job_spec.hpp"
#include "stopping/stranded.hpp"

#include <chrono>
#include <optional>

namespace autolaunch::launcher {

class Console;

/// A job whose ranks have ended, and what of it is asked for once more.
struct JobEnding {
    const JobSpec& spec;
    const Allocation& allocation;
    const EnvironmentMap& environment;
    const LaunchPlan& plan;
    const JobWitness& witness;
    Reporter& reporter;
    Console& console;
    bool is_head = false;
    const std::optional<Stranded>& stranded;  ///< a node without a majority of the others
    std::chrono::system_clock::time_point began;
};

/// What this process exits with: `exit_code`, unless what ranks printed was lost, the audit trail
/// cannot be kept, or the job starts anew. The scheduler is asked for that here, after all else: it
/// ends this process. Blocks: as requeue_if_wanted() and may_start_anew() do.
int end_job(const JobEnding& job, int exit_code);

}  // namespace autolaunch::launcher
