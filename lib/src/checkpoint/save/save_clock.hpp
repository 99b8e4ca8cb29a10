#pragma once
#include <autolaunch/checkpoint/save_schedule.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autolaunch {

/// One rank's view of when to save. Pure: times are seconds of one clock, given by the caller.
/// Owner: Checkpointer.
class SaveClock {
public:
    /// `deadline` of the same clock; nothing: none.
    SaveClock(const SaveSchedule& schedule, int node_count, std::optional<double> deadline,
              double now);

    /// The step `step` is over: what is due of steps, seconds and deadline. The deadline comes
    /// first.
    SaveReason due(std::int64_t step, double now);
    /// A save began at `now`.
    void began(double now) { last_save_ = now; }
    /// What it cost: the trainer stood still for `stall`, and it was published after `durable`.
    /// Seconds.
    void cost(double stall, double durable);
    /// The job ends at `deadline` if not before.
    void end_by(double deadline) { deadline_ = std::min(deadline_.value_or(deadline), deadline); }
    /// Until the job ends; nothing when nobody said so. Negative when it should have.
    std::optional<double> seconds_left(double now) const;
    /// What a save may take, by the last ones; nothing before one was measured.
    std::optional<double> expected_save() const;
    /// Seconds between saves by time; nothing when only steps count.
    std::optional<double> interval() const;

private:
    bool ends_before_next(double now) const;

    SaveSchedule schedule_;
    double seconds_between_failures_;
    std::optional<double> deadline_;
    double last_save_;
    double last_step_;
    double longest_step_ = 0;  // of the last few: it fades
    double stall_ = 0, durable_ = 0;
    bool measured_ = false;
};

/// SLURM_JOB_END_TIME (seconds since 1970); nothing for no number and for a job without an end.
std::optional<std::chrono::system_clock::time_point> slurm_deadline(std::string_view text);

}  // namespace autolaunch
