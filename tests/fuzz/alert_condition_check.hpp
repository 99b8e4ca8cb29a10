#pragma once
#include "alerts/condition.hpp"
#include "require.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher::alerts {

/// One value of each metric, of one subject of its kind.
inline std::vector<Observation> one_of_each_metric() {
    std::vector<Observation> seen;
    for (const AlertMetric& metric : alert_metrics())
        seen.push_back(
            {.metric = &metric,
             .subject = metric.scope == MetricScope::job
                            ? std::string()
                            : std::string(name_of(metric.scope)) + " 1",
             .number = 90,
             .word = metric.words.empty() ? std::string() : std::string(metric.words.front())});
    return seen;
}

/// A condition as anybody may write it: one that can be judged and whose text reads the same, or
/// what is wrong with it and where. Aborts where that is not so. Whether it is one.
inline bool check_condition_bytes(std::string_view bytes) {
    using fuzz::require;
    const auto read = parse_condition(bytes);
    if (const auto* error = std::get_if<ConditionError>(&read)) {
        require(error->at <= bytes.size() && !error->message.empty());
        return false;
    }
    const auto& condition = std::get<Condition>(read);
    require(!condition.any.empty());
    for (const auto& all : condition.any) {
        require(!all.empty());
        for (const Comparison& one : all)
            require(one.metric != nullptr && std::isfinite(one.number) &&
                    one.word.empty() == one.metric->words.empty());
    }
    const auto again = parse_condition(condition.text);
    require(std::holds_alternative<Condition>(again) &&
            std::get<Condition>(again).any.size() == condition.any.size() &&
            std::get<Condition>(again).hold == condition.hold);
    static const auto seen = one_of_each_metric();
    static const MetricHistory history = [] {
        MetricHistory made;
        for (int i = 0; i < 8; ++i)
            made.add(seen);
        return made;
    }();
    for (const Match& match : matches_of(condition, seen, history))
        require(!match.value.empty());
    require(unseen_metrics(condition, seen).empty() && !unseen_metrics(condition, {}).empty());
    return true;
}

}  // namespace autolaunch::launcher::alerts
