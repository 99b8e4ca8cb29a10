#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher::alerts {

/// What one value of a metric is of.
enum class MetricScope { job, rank, node, gpu, file_system };
/// "job", "rank", "node", "GPU", "file system".
std::string_view name_of(MetricScope scope);

/// A name that conditions may have. The one table of them: the language, its errors and
/// docs/alerts.md come from it.
struct AlertMetric {
    std::string_view name;
    MetricScope scope;
    std::string_view unit;  ///< "%", "s", "°C", "W", "bytes"; empty: a plain number, or a word
    std::string_view meaning;
    std::vector<std::string_view> words = {};  ///< that it may be; empty: it is a number
};
std::span<const AlertMetric> alert_metrics();
const AlertMetric* find_alert_metric(std::string_view name);

/// A value that was seen.
struct Observation {
    const AlertMetric* metric = nullptr;
    std::string
        subject;  ///< "rank 3", "node1", "GPU 2 of node1", "/scratch of node1"; empty: the job
    double number = 0;
    std::string word = {};  ///< of a metric of words
};

}  // namespace autolaunch::launcher::alerts
