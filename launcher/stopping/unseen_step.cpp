#include "stopping/unseen_step.hpp"

#include "allocation/slurm_command.hpp"

#include <chrono>
#include <thread>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

// Of tasks that run srun would show the SIGKILL. The head's ends last: it proves the job's end.
constexpr auto kOthersEnd = 10s;
constexpr auto kJobTime = 5s, kCancelTime = 10s;  // a busy slurmctld

}  // namespace

std::string step_name(const Allocation& allocation) {
    const bool in_step =
        allocation.source == "slurm" && allocation.job_id.find('.') != std::string::npos;
    return in_step ? allocation.job_id : std::string();
}

bool may_end_step(const std::optional<SlurmJobRecord>& record, int restarts) {
    return record && record->state == "RUNNING" && record->restarts == restarts;
}

void end_unseen_step(const Allocation& own, const EnvironmentMap& environment) {
    const std::string step = step_name(own);
    const auto job = environment.find("SLURM_JOB_ID");
    if (step.empty() || job == environment.end())
        return;
    std::this_thread::sleep_for(kOthersEnd);
    SlurmCommand question(slurm_job_question(job->second));
    const auto record = parse_slurm_job(question.wait(Deadline::after(kJobTime)), job->second);
    if (may_end_step(record, own.restart_count))
        SlurmCommand({"scancel", step}).wait(Deadline::after(kCancelTime));
}

}  // namespace autolaunch::launcher
