#include "report/progress_bar.hpp"

#include "report/bar.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr double kSmoothing = 0.1;  // weight of the newest step in the rates
constexpr int kMinBarColumns = 8, kMaxBarColumns = 40;

void smooth(std::optional<double>& average, double value) {
    if (!std::isfinite(value) || value <= 0)
        return;
    average = average ? *average + kSmoothing * (value - *average) : value;
}

// Minutes are enough while there are some.
std::string format_left(std::chrono::seconds left) {
    const bool in_minutes = left >= std::chrono::minutes(2) && left < std::chrono::hours(2);
    return in_minutes ? fmt::format("{} min", (left.count() + 30) / 60) : format_duration(left);
}

}  // namespace

void ProgressBar::add(const StepReported& report, Time at) {
    if (rank_ && report.rank > *rank_)
        return;
    if (!rank_ || report.rank < *rank_)
        restart();
    rank_ = report.rank;

    std::optional<double> seconds = report.seconds;
    if (!seconds && reported_at_ && step_ && report.step > *step_)
        seconds = std::chrono::duration<double>(at - *reported_at_).count() /
                  static_cast<double>(report.step - *step_);
    if (seconds)
        smooth(seconds_per_step_, *seconds);
    if (seconds && report.tokens && *seconds > 0)
        smooth(tokens_per_second_, static_cast<double>(*report.tokens) / *seconds);

    step_ = report.step;
    reported_at_ = at;
    if (report.total_steps)
        total_steps_ = report.total_steps;
    if (report.loss)
        loss_ = report.loss;
}

void ProgressBar::add(const CheckpointPublished& checkpoint) {
    if (saved_step_ &&
        *saved_step_ == checkpoint.step) {  // every rank reports it; the slowest one counts
        saved_stall_seconds_ = std::max(saved_stall_seconds_, checkpoint.stall_seconds);
        return;
    }
    saved_step_ = checkpoint.step;
    saved_stall_seconds_ = checkpoint.stall_seconds;
}

void ProgressBar::restart() {
    rank_.reset();
    step_.reset();
    loss_.reset();
    seconds_per_step_.reset();
    tokens_per_second_.reset();
    reported_at_.reset();
}

std::string ProgressBar::numbers() const {
    std::vector<std::string> parts;
    if (loss_)
        parts.push_back(fmt::format("loss {:.4g}", *loss_));
    if (tokens_per_second_)
        parts.push_back(format_rate(*tokens_per_second_) + " tok/s");
    if (saved_step_)
        parts.push_back(
            fmt::format("saved @{} ({:.2f} s stall)", *saved_step_, saved_stall_seconds_));
    if (total_steps_ && seconds_per_step_ && *total_steps_ > *step_) {
        const double seconds = static_cast<double>(*total_steps_ - *step_) * *seconds_per_step_;
        parts.push_back(
            format_left(std::chrono::seconds(static_cast<long long>(std::min(seconds, 1e9)))) +
            " left");
    }
    return fmt::format("{}", fmt::join(parts, " · "));
}

std::string ProgressBar::plain() const {
    if (!known())
        return {};
    std::string text = fmt::format("step {}", *step_);
    if (total_steps_)
        text += fmt::format("/{}", *total_steps_);
    const std::string right = numbers();
    return right.empty() ? text : text + "  " + right;
}

std::string ProgressBar::line(int columns) const {
    if (!known() || !total_steps_ || *total_steps_ <= 0)
        return fit_width(plain(), columns);
    const std::string left = fmt::format("step {}/{} ", *step_, *total_steps_);
    const std::string right = numbers();
    const int taken = display_width(left) + (right.empty() ? 0 : display_width(right) + 2);
    const int bar_columns = std::min(kMaxBarColumns, columns - taken);
    if (bar_columns < kMinBarColumns)
        return fit_width(plain(), columns);
    const double done = static_cast<double>(*step_) / static_cast<double>(*total_steps_);
    return left + draw_bar(done, bar_columns) + (right.empty() ? "" : "  " + right);
}

}  // namespace autolaunch::launcher
