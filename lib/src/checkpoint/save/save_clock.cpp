#include "checkpoint/save/save_clock.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace autolaunch {

namespace {

constexpr double kNodeSecondsBetweenFailures = 6300.0 * 3600;
// Until the first save is measured.
constexpr double kAssumedCost_s = 10;
// What the end of a job takes besides the save, and how much slower than the slowest so far it may
// be.
constexpr double kEnd_s = 5, kSlack = 1.5;
// A step that was slow once, such as the first, is not expected for ever.
constexpr double kFading = 0.9;

void require_positive(double value, const char* what) {
    if (!(value > 0) || !std::isfinite(value))
        throw Error(ErrorCode::invalid_argument,
                    "SaveSchedule::" + std::string(what) + " is not more than 0");
}

}  // namespace

double optimal_save_interval(double cost_seconds, double seconds_between_failures) {
    const double cost = cost_seconds, mean = seconds_between_failures;
    if (cost >= 2 * mean)
        return mean;
    const double ratio = cost / (2 * mean);
    return std::sqrt(2 * cost * mean) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

std::string_view name_of(SaveReason reason) noexcept {
    constexpr std::string_view kNames[] = {"none",      "steps",    "seconds",
                                           "requested", "deadline", "stop"};
    return kNames[static_cast<std::size_t>(reason)];
}

SaveClock::SaveClock(const SaveSchedule& schedule, int node_count, std::optional<double> deadline,
                     double now)
    : schedule_(schedule),
      seconds_between_failures_(schedule.seconds_between_failures.value_or(
          kNodeSecondsBetweenFailures / std::max(node_count, 1))),
      deadline_(deadline),
      last_save_(now),
      last_step_(now) {
    if (schedule.every_steps)
        require_positive(static_cast<double>(*schedule.every_steps), "every_steps");
    if (schedule.every_seconds)
        require_positive(*schedule.every_seconds, "every_seconds");
    require_positive(seconds_between_failures_, "seconds_between_failures");
}

std::optional<double> SaveClock::interval() const {
    std::optional<double> interval = schedule_.every_seconds;
    if (schedule_.optimal) {
        const double optimal =
            optimal_save_interval(measured_ ? stall_ : kAssumedCost_s, seconds_between_failures_);
        interval = std::min(interval.value_or(optimal), optimal);
    }
    // One save at a time: a faster rhythm than the storage's would only make the trainer wait for
    // it.
    if (interval)
        interval = std::max(*interval, durable_);
    return interval;
}

std::optional<double> SaveClock::seconds_left(double now) const {
    return deadline_ ? std::optional(*deadline_ - now) : std::nullopt;
}

std::optional<double> SaveClock::expected_save() const {
    return measured_ ? std::optional(kSlack * durable_) : std::nullopt;
}

bool SaveClock::ends_before_next(double now) const {
    return deadline_ &&
           now + kSlack * (longest_step_ + (measured_ ? durable_ : kAssumedCost_s)) + kEnd_s >=
               *deadline_;
}

SaveReason SaveClock::due(std::int64_t step, double now) {
    longest_step_ = std::max(now - last_step_, kFading * longest_step_);
    last_step_ = now;
    if (ends_before_next(now))
        return SaveReason::deadline;
    if (schedule_.every_steps && step % *schedule_.every_steps == 0)
        return SaveReason::steps;
    const auto seconds = interval();
    // Half a step early is nearer than half a step late.
    if (seconds && now + longest_step_ / 2 >= last_save_ + *seconds)
        return SaveReason::seconds;
    return SaveReason::none;
}

void SaveClock::cost(double stall, double durable) {
    stall_ = measured_ ? std::max(stall, kFading * stall_) : stall;
    durable_ = measured_ ? std::max(durable, kFading * durable_) : durable;
    measured_ = true;
}

std::optional<std::chrono::system_clock::time_point> slurm_deadline(std::string_view text) {
    constexpr long long kFirstSpecial = 0xfffffff0;
    long long seconds = 0;
    if (!parse_integer(text, seconds) || seconds <= 0 || seconds >= kFirstSpecial)
        return std::nullopt;
    return std::chrono::system_clock::from_time_t(static_cast<std::time_t>(seconds));
}

}  // namespace autolaunch
