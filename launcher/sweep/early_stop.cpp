#include "sweep/early_stop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

/// Of at least one, the better half first.
double median(std::vector<double> values, bool maximise) {
    std::sort(values.begin(), values.end(),
              [=](double a, double b) { return is_better(a, b, maximise); });
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string why_median(const EarlyStopSpec& stop, const SweepLook& own,
                       const std::vector<SweepLook>& others) {
    if (others.size() < static_cast<std::size_t>(stop.min_elements))
        return {};
    std::vector<double> means;
    means.reserve(others.size());
    for (const SweepLook& other : others)
        means.push_back(other.mean);
    const bool maximise = stop.goal.maximise;
    const double middle = median(std::move(means), maximise);
    if (!is_better(middle, own.best, maximise))
        return {};
    return fmt::format(
        "median: its best {} until step {}, {:.6g}, is worse than {:.6g}, the "
        "median of the means of {} others",
        name_of(stop.goal.metric), own.mark, own.best, middle, others.size());
}

std::string why_asha(const EarlyStopSpec& stop, const SweepLook& own,
                     const std::vector<SweepLook>& others) {
    const bool maximise = stop.goal.maximise;
    const auto better = static_cast<std::size_t>(std::count_if(
        others.begin(), others.end(),
        [&](const SweepLook& other) { return is_better(other.value, own.value, maximise); }));
    const auto eta = static_cast<std::size_t>(stop.eta);
    const std::size_t all = others.size() + 1, kept = (all + eta - 1) / eta;
    if (better < kept)
        return {};
    return fmt::format(
        "asha: its {} at the rung of step {}, {:.6g}, is number {} of {}, and the "
        "best {} go on",
        name_of(stop.goal.metric), own.mark, own.value, better + 1, all, kept);
}

}  // namespace

std::optional<double> value_of(const StepMetrics& step, SweepMetric metric) {
    switch (metric) {
        case SweepMetric::loss:
            return step.loss;
        case SweepMetric::seconds:
            return step.seconds;
        case SweepMetric::tokens_per_second:
            break;
    }
    if (!step.tokens || !step.seconds || !(*step.seconds > 0))
        return std::nullopt;
    return *step.tokens / *step.seconds;
}

bool is_better(double a, double b, bool maximise) {
    if (std::isnan(a) || std::isnan(b))
        return !std::isnan(a);
    return maximise ? a > b : a < b;
}

std::optional<std::int64_t> newest_mark(const EarlyStopSpec& stop, std::int64_t step) {
    if (stop.rule == EarlyStopSpec::Rule::none || step < stop.min_steps)
        return std::nullopt;
    if (stop.rule == EarlyStopSpec::Rule::median)
        return step - (step - stop.min_steps) % stop.every;
    std::int64_t mark = stop.min_steps;
    while (mark <= step / stop.eta)
        mark *= stop.eta;
    return mark;
}

std::optional<SweepLook> MetricHistory::take(const EarlyStopSpec& stop, std::int64_t step,
                                             double value) {
    if (step <= newest_step)
        return std::nullopt;
    newest_step = step;
    last = value;
    ++count;
    mean += (value - mean) / static_cast<double>(count);
    if (count == 1 || is_better(value, best, stop.goal.maximise))
        best = value, best_step = step;
    const auto mark = newest_mark(stop, step);
    if (!mark || (!looks.empty() && looks.back().mark >= *mark) || looks.size() >= kMostLooks)
        return std::nullopt;
    looks.push_back({*mark, step, value, mean, best});
    return looks.back();
}

std::string why_stop(const EarlyStopSpec& stop, const SweepLook& own,
                     const std::vector<SweepLook>& others) {
    switch (stop.rule) {
        case EarlyStopSpec::Rule::median:
            return why_median(stop, own, others);
        case EarlyStopSpec::Rule::asha:
            return why_asha(stop, own, others);
        case EarlyStopSpec::Rule::none:
            break;
    }
    return {};
}

}  // namespace autolaunch::launcher
