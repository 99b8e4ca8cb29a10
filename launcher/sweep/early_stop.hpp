#pragma once
#include "spec/sweep_spec.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// When is an element of a sweep not worth going on with? All of it is pure.

/// What was reported of one step.
struct StepMetrics {
    std::int64_t step = 0;
    std::optional<double> loss, seconds, tokens;
};
/// Nothing where the report has it not.
std::optional<double> value_of(const StepMetrics& step, SweepMetric metric);

/// How an element stood when it came to a mark, a number of steps at which all are compared.
struct SweepLook {
    std::int64_t mark = 0, step = 0;
    double value = 0;  ///< at that step
    double mean = 0;   ///< of all until then
    double best = 0;   ///< of all until then

    bool operator==(const SweepLook&) const = default;
};

/// Whether `a` is better. What is no number is worse than all numbers.
bool is_better(double a, double b, bool maximise);

/// The marks of a rule, from min_steps on: median's every so many steps, asha's each eta times as
/// far as the one before. The newest that is not beyond `step`; nothing before the first, and
/// without a rule.
std::optional<std::int64_t> newest_mark(const EarlyStopSpec& stop, std::int64_t step);

/// All that one element has reported of its metric. Steps that are done again after a restart count
/// once.
struct MetricHistory {
    std::int64_t newest_step = -1, best_step = -1, count = 0;
    double last = 0, best = 0, mean = 0;
    std::vector<SweepLook> looks;  ///< by mark, at most kMostLooks

    /// The look that is due with this report, if one is; it is kept. Who reports seldom may pass
    /// several marks at once, and is compared at the newest.
    std::optional<SweepLook> take(const EarlyStopSpec& stop, std::int64_t step, double value);
};
inline constexpr std::size_t kMostLooks = 1000;

/// Why this element stops, having come to a mark as `own` says; empty: it goes on. `others` is of
/// all other elements that have come there.
///
/// median: it stops if its best so far is worse than the median of the others' means so far (the
/// median stopping rule of Golovin et al., Google Vizier, KDD 2017), where at least
/// stop.min_elements have come as far. asha: it goes on if it is among the best 1/eta, rounded up,
/// of those that have come to the rung by now (Li et al., A System for Massively Parallel
/// Hyperparameter Tuning, MLSys 2020, in the form that stops instead of promoting).
std::string why_stop(const EarlyStopSpec& stop, const SweepLook& own,
                     const std::vector<SweepLook>& others);

}  // namespace autolaunch::launcher
