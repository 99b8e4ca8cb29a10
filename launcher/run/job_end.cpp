#include "run/job_end.hpp"

#include "base/deadline.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/console.hpp"
#include "stopping/requeue.hpp"
#include "supervise/restart_book.hpp"

#include <chrono>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr auto kFlushTimeout = std::chrono::seconds(5);

void say(Console& console, const std::string& line) {
    console.write_message(line);
    console.flush(Deadline::after(kFlushTimeout));
}

int code_by_output(const JobEnding& job, int exit_code) {
    const bool promised = !job.plan.spec.logging.prefix;  // --no-prefix: the bytes are the result
    job.console.flush(Deadline::after(kFlushTimeout));
    const bool arrived = job.reporter.output_arrived();
    job.console.flush(Deadline::after(kFlushTimeout));
    return arrived || !promised || exit_code != exit_code::kSuccess ? exit_code
                                                                    : exit_code::kOutputLost;
}

int code_by_witness(const JobEnding& job, int exit_code) {
    if (!job.witness.ends)
        return exit_code;
    std::string why;
    const int counts = job.witness.ends(job.plan, exit_code, why);
    if (!why.empty())
        say(job.console, why);
    return counts;
}

}  // namespace

int end_job(const JobEnding& job, int exit_code) {
    int told = code_by_witness(job, code_by_output(job, exit_code));
    const auto say_it = [&job](const std::string& line) { say(job.console, line); };
    const bool wanted = job.spec.slurm.requeue.value_or(false);
    const int restarts = job.allocation.restart_count;
    const bool starts_anew =
        job.stranded && may_start_anew(*job.stranded, {wanted, restarts}, job.environment, say_it);
    if (starts_anew)
        told = exit_code::kRequeue;
    if (job.is_head || starts_anew)
        requeue_if_wanted({.wanted = wanted,
                           .exit_code = told,
                           .restarts = restarts,
                           .unfit = nodes_to_exclude(job.plan.run_dir, job.plan.run_id),
                           .lost = nodes_lost_since(job.plan.run_dir, job.plan.run_id, job.began)},
                          job.environment, say_it);
    return told;
}

}  // namespace autolaunch::launcher
