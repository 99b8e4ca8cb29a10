#pragma once
#include "report/event.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// How far the job is, from what its ranks report. Numbers are the job's: they come from the lowest
/// rank that reports (rank 0 as a rule), not from a sum over ranks. Pure: times come with the
/// events.
class ProgressBar {
public:
    using Time = std::chrono::system_clock::time_point;

    void add(const StepReported& report, Time at);
    void add(const CheckpointPublished& checkpoint);
    /// A new generation begins: its rates are its own, what was saved stays.
    void restart();

    /// Something was reported in this generation.
    bool known() const { return step_.has_value(); }
    /// "step 1240/5000 ━━━━╸━━━  loss 2.713 · 412k tok/s · saved @1200 (0.02 s stall) · 21 min
    /// left", at most `columns` wide; first the bar gives way, then the parts from the right.
    std::string line(int columns) const;
    /// The same without the bar, for logs.
    std::string plain() const;

    // What the line is made of; nothing where it was not reported.
    std::optional<std::int64_t> step() const { return step_; }
    std::optional<std::int64_t> total_steps() const { return total_steps_; }
    std::optional<double> loss() const { return loss_; }
    std::optional<double> tokens_per_second() const { return tokens_per_second_; }
    std::optional<double> seconds_per_step() const { return seconds_per_step_; }
    std::optional<std::int64_t> saved_step() const { return saved_step_; }

private:
    std::string numbers() const;

    std::optional<int> rank_;  // whose reports count
    std::optional<std::int64_t> step_, total_steps_;
    std::optional<double> loss_, seconds_per_step_, tokens_per_second_;
    std::optional<Time> reported_at_;
    std::optional<std::int64_t> saved_step_;
    double saved_stall_seconds_ = 0;
};

}  // namespace autolaunch::launcher
