#pragma once
#include "alerts/metric.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher::alerts {

// The language of conditions:
//
//     condition  := comparisons { "or" comparisons } [ "for" DURATION ]
//     comparisons := comparison { "and" comparison }
//     comparison := METRIC operator limit
//     operator   := ">" | ">=" | "<" | "<=" | "==" | "!="
//     limit      := NUMBER [unit] | 'WORD' | [ NUMBER "*" ] "median"
//
//     gpu_temperature > 85         job_status == 'failed'      disk_usage > 90%
//     gpu_utilization < 50 for 10m                             step_time > 2 * median

struct Comparison {
    enum class Operator { above, at_least, below, at_most, equal, unequal };

    const AlertMetric* metric = nullptr;
    Operator op = Operator::above;
    double number = 0;  ///< the limit, or what `of_median` is multiplied by
    std::string word = {};
    bool of_median = false;  ///< of all that was seen of the metric, lately
};

struct Condition {
    std::string text;                                    ///< as it was written
    std::vector<std::vector<Comparison>> any;            ///< one of these, of which all hold
    std::optional<std::chrono::milliseconds> hold = {};  ///< "for 10m"
};

/// What is wrong with a condition, and where in its text.
struct ConditionError {
    std::size_t at = 0;  ///< bytes before it
    std::string message;
};

/// Pure.
std::variant<Condition, ConditionError> parse_condition(std::string_view text);

/// What was seen lately of each metric that some condition compares with its median: 1,000 values
/// at most.
class MetricHistory {
public:
    void add(std::span<const Observation> seen);
    /// Nothing before 8 values: the first steps are no measure.
    std::optional<double> median(const AlertMetric& metric) const;

private:
    std::map<std::string_view, std::deque<double>> values_;
};

/// A subject of which a condition holds.
struct Match {
    std::string subject;  ///< as Observation::subject
    std::string value;    ///< "gpu_temperature is 91 °C"
    bool operator==(const Match&) const = default;
};
/// Those of which it holds now, in the order in which they were seen. Pure.
std::vector<Match> matches_of(const Condition& condition, std::span<const Observation> seen,
                              const MetricHistory& history);

/// The metrics of a condition of which nothing was seen: of those it says nothing. Pure.
std::vector<std::string> unseen_metrics(const Condition& condition,
                                        std::span<const Observation> seen);

}  // namespace autolaunch::launcher::alerts
