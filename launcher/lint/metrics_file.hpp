#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A name in an expression of PromQL, or the first field of a line of dcgm-exporter's CSV.
struct MetricUse {
    std::string name;
    int line = 0;
};

/// Whether the text is one that names metrics: Prometheus' rules, its configuration, tests of
/// rules, a dashboard of Grafana, the counters of dcgm-exporter.
bool is_metrics_file(const std::string& file, std::string_view text);

/// What its expressions use: not labels and their values, nor by what it is grouped. Not a whole
/// parser: what stands in expr:, query:, series: and "expr": is taken apart. Linear. Pure.
std::vector<MetricUse> metric_uses(std::string_view text, int first_line = 1);
/// Of text that is one expression.
std::vector<MetricUse> metrics_of_expression(std::string_view expression, int first_line = 1);

}  // namespace autolaunch::launcher
