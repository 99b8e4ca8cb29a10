#pragma once
#include "plan/launch_plan.hpp"
#include "report/event.hpp"
#include "spawn/command_wait.hpp"
#include "stopping/maintenance.hpp"
#include "stopping/slurm_job_record.hpp"
#include "stopping/stop_budget.hpp"
#include "stopping/stop_facts.hpp"
#include "supervise/job_end_time.hpp"
#include "supervise/slurm_inquiry.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// How much time a stop has, and when the job must be asked to stop so that its saves fit in before
/// the allocation's end: from the times of its own saves, what Slurm says of its end, and, once it
/// was asked to stop, what Slurm says of why. Before a maintenance of its nodes the job is asked
/// for a checkpoint.
///
/// Owner: the JobSupervisor. Threads: the one that runs the context. Blocks: as TimeLeftQuery, and
/// on the file system.
class StopPlanner {
public:
    struct Callbacks {
        std::function<void(Happening)> report;
        /// The ranks must be asked now: the allocation ends in `left`.
        std::function<void(std::chrono::milliseconds left)> last_moment;
        /// Why the job is to stop, by Slurm's word, and how much time that leaves from now on.
        std::function<void(const StopKnown& known)> explained;
    };

    /// All must outlive it.
    StopPlanner(asio::io_context& io, const LaunchPlan& plan, StopFacts& facts,
                Callbacks callbacks);

    /// What the saves of earlier starts tell of a stop, once.
    void say_budget();
    /// All ranks run.
    void ranks_run() {
        end_time_.find_out();
        inquiry_.begin();
    }
    /// A stop signal has come: nothing is asked for any more but why it came.
    void stop_asked();
    /// The job is over. Waits a moment for that answer. Again: does nothing.
    void stop();

    /// Of the allocation; nothing: that is not known.
    std::optional<std::chrono::seconds> time_left() const;

    /// What ranks have after this signal's stop: StopRanks::grace.
    std::chrono::milliseconds grace_after(int signal) const;
    /// The same where the allocation ends, or somebody kills all, in `left`.
    std::chrono::milliseconds grace_within(std::chrono::milliseconds left) const;

private:
    StopTimes times() const;
    void on_times(JobTimes times);
    void on_over_time(std::chrono::minutes over);
    void on_save();
    void set_last_moment();
    std::optional<std::chrono::system_clock::time_point> last_moment() const;
    void ask_why();
    void explain();
    void compare_reserve();
    void look_for_maintenance();
    void take_maintenance(const std::string& answer);
    void record();

    const LaunchPlan& plan_;
    StopFacts& facts_;
    Callbacks callbacks_;
    JobEndTime end_time_;
    SlurmInquiry inquiry_;
    std::chrono::minutes over_time_{0};  ///< that Slurm lets the job run on after its limit
    asio::steady_timer moment_;
    std::optional<SlurmCommand> question_, reservations_;
    CommandWait wait_, reservations_wait_;
    asio::steady_timer before_maintenance_;
    std::chrono::milliseconds reserved_;      ///< storage.stage_out_time, where the job has as much
    std::optional<Maintenance> maintenance_;  ///< the newest that was told
    std::optional<std::chrono::system_clock::time_point> ends_at_;
    std::optional<StopKnown> early_;  ///< an answer that may change: Slurm is asked again
    bool confirming_ = false;         ///< the moment has come: Slurm is asked once more
    bool stopping_ = false, told_limit_ = false, cannot_record_ = false;
    bool compared_reserve_ = false;
    int asked_ = 0;  ///< how often, why a stop signal came
    std::string budget_said_;
    std::chrono::steady_clock::time_point recorded_at_{};
};

}  // namespace autolaunch::launcher
