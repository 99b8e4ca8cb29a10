#include "supervise/stop_grace.hpp"

#include "report/units.hpp"

namespace autolaunch::launcher {

std::string shortened_notice(const LaunchPlan& plan, std::chrono::milliseconds grace) {
    const std::string wait = format_duration(plan.kill_wait.value());
    const std::string who = !plan.slurm_job_id.empty()
                                ? "Slurm sends SIGKILL " + wait + " (KillWait)"
                                : "SIGKILL comes " + wait + " (restart.kill_wait)";
    const auto copies = plan.spec.storage.stage_out_time;
    return "restart.grace_period is " + format_duration(plan.spec.restart.grace_period) + ", but " +
           who + " after SIGTERM" +
           (copies.count() > 0 ? ", and storage.stage_out_time is " + format_duration(copies)
                               : "") +
           ": the ranks have " + format_duration(grace);
}

}  // namespace autolaunch::launcher
