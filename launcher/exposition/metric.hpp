#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

enum class MetricType { gauge, counter, histogram, info };

/// A metric that we tell. docs/metrics.md lists all of them; a test compares.
struct MetricKind {
    std::string_view name;  ///< as Prometheus has it: a counter with _total, info with _info
    MetricType type;
    std::string_view unit;    ///< "seconds", "bytes", "ratio", …; empty: a number
    std::string_view labels;  ///< "gpu,uuid", in their order, besides those of the job
    std::string_view help;    ///< one line, no full stop
};

/// In the order in which they are told.
std::span<const MetricKind> metric_kinds();

using Labels = std::vector<std::pair<std::string, std::string>>;

/// A value of a metric, with its labels.
struct MetricValue {
    Labels labels = {};
    double value = 0;
};
struct HistogramValue {
    struct Exemplar {
        Labels labels;
        double value = 0;
        std::int64_t time_ms = 0;
    };
    std::vector<double> bounds = {};         ///< upper ones; +Inf follows
    std::vector<std::uint64_t> counts = {};  ///< of each bucket alone: one more than bounds
    std::vector<std::optional<Exemplar>> exemplars = {};  ///< as many as counts, or none
    double sum = 0;
};
struct Metric {
    const MetricKind* kind = nullptr;
    std::vector<MetricValue> values = {};
    std::optional<HistogramValue> histogram = {};
};

/// Which text: Prometheus' (0.0.4), or OpenMetrics 1.0, with exemplars.
enum class MetricFormat { prometheus, openmetrics };

/// All of them as text, each with HELP and TYPE; those without a value are left out. `common`
/// labels come first in each series. No timestamps. Pure.
std::string metrics_text(const std::vector<Metric>& metrics, const Labels& common,
                         MetricFormat format);

/// What an Accept header asks for: OpenMetrics where it names it with no smaller q than plain text.
MetricFormat format_wanted(std::string_view accept);
std::string_view content_type(MetricFormat format);

}  // namespace autolaunch::launcher
