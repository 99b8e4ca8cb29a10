#include "run/job_receipt.hpp"

#include "base/file_system.hpp"
#include "idle/receipt.hpp"
#include "report/console.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"
#include "run_report/run_reader.hpp"
#include "stopping/job_comment.hpp"
#include "supervise/run_directory.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <string>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

// Nobody waits longer for a receipt: `autolaunch report` reads all there is.
constexpr std::uintmax_t kMostEventBytes = std::uintmax_t{1} << 30;  // some seconds
constexpr auto kSamplesTime = 10s, kSlurmTime = 5s;

JobGpuTime gpu_time_of(const LaunchPlan& plan, const RunDirectory& run_dir) {
    const std::uintmax_t bytes = file_bytes(run_dir.events_path());
    if (bytes > kMostEventBytes)
        return {.gaps = {fmt::format("events.jsonl has {}: autolaunch report {} tells it",
                                     format_bytes(bytes), plan.run_dir)}};
    return read_run(plan.run_dir, {.secrets = plan.spec.secrets, .samples_within = kSamplesTime})
        .gpu_time;
}

void comment(const LaunchPlan& plan, const Receipt& receipt, Console& console) {
    const std::string text = receipt.comment(kMostComment);
    if (plan.slurm_job_id.empty() || text.empty())
        return;
    std::string why;
    if (comment_on_job(plan.slurm_job_id, text, Deadline::after(kSlurmTime), why).empty())
        console.write_message(fmt::format("gpus: not in Slurm's comment on job {}: {}",
                                          plan.slurm_job_id,
                                          escape_for_terminal(why, Colours::strip)));
}

}  // namespace

void tell_receipt(const LaunchPlan& plan, const RunDirectory& run_dir, Console& console) try {
    const JobGpuTime job = gpu_time_of(plan, run_dir);
    const Receipt receipt = receipt_of(job);
    run_dir.keep_gpu_time(gpu_time_json(job));
    if (!plan.spec.logging.quiet) {
        for (const std::string& line : receipt.lines())
            console.write_message(escape_for_terminal(line, Colours::strip));
        if (!receipt.asked.empty() || plan.gpu_count > 0)
            for (const std::string& gap : job.gaps)
                console.write_message("gpus: " + escape_for_terminal(gap, Colours::strip));
    }
    comment(plan, receipt, console);
} catch (const std::exception& error) {
    if (plan.gpu_count > 0)  // else there was nothing to tell, and others say what is broken
        console.write_message(fmt::format("{} where the time of GPUs went is not told: {}",
                                          console.style().yellow("warning:"), error.what()));
}

}  // namespace autolaunch::launcher
