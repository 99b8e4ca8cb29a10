#include "exposition/metric.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

namespace autolaunch::launcher {
namespace {

constexpr std::string_view kTotal = "_total", kInfo = "_info";

std::string escaped(std::string_view text, bool quotes) {
    std::string out;
    for (const char c : text) {
        if (c == '\\')
            out += "\\\\";
        else if (c == '\n')
            out += "\\n";
        else if (c == '"' && quotes)
            out += "\\\"";
        else
            out += c;
    }
    return out;
}

std::string number(double value) {
    if (std::isnan(value))
        return "NaN";
    if (std::isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
}

std::string labels_text(const Labels& common, const Labels& own,
                        const std::pair<std::string, std::string>* last = nullptr) {
    std::string text;
    const auto add = [&](const std::pair<std::string, std::string>& label) {
        text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", label.first,
                            escaped(label.second, true));
    };
    for (const auto& label : common)
        add(label);
    for (const auto& label : own)
        add(label);
    if (last != nullptr)
        add(*last);
    return text.empty() ? text : '{' + text + '}';
}

const char* type_word(MetricType type, MetricFormat format) {
    switch (type) {
        case MetricType::counter:
            return "counter";
        case MetricType::histogram:
            return "histogram";
        case MetricType::info:
            return format == MetricFormat::openmetrics ? "info" : "gauge";
        case MetricType::gauge:
            break;
    }
    return "gauge";
}

// OpenMetrics names the family without what its type adds to the series.
std::string_view family_name(const MetricKind& kind, MetricFormat format) {
    std::string_view name = kind.name;
    if (format == MetricFormat::openmetrics &&
        (kind.type == MetricType::counter || kind.type == MetricType::info))
        name.remove_suffix(kind.type == MetricType::counter ? kTotal.size() : kInfo.size());
    return name;
}

std::string exemplar_text(const HistogramValue::Exemplar& exemplar) {
    constexpr double kMilli = 1e-3;
    return fmt::format(" # {} {} {:.3f}", labels_text({}, exemplar.labels), number(exemplar.value),
                       static_cast<double>(exemplar.time_ms) * kMilli);
}

void add_histogram(std::string& text, const Metric& metric, const Labels& common,
                   MetricFormat format) {
    const HistogramValue& histogram = *metric.histogram;
    std::uint64_t below = 0;
    for (std::size_t at = 0; at < histogram.counts.size(); ++at) {
        below += histogram.counts[at];
        const bool is_last = at >= histogram.bounds.size();
        const std::pair<std::string, std::string> bound{
            "le", is_last ? "+Inf" : number(histogram.bounds[at])};
        text += fmt::format("{}_bucket{} {}", metric.kind->name, labels_text(common, {}, &bound),
                            below);
        const bool has_exemplar = format == MetricFormat::openmetrics &&
                                  at < histogram.exemplars.size() && histogram.exemplars[at];
        text += has_exemplar ? exemplar_text(*histogram.exemplars[at]) : "";
        text += '\n';
    }
    const std::string labels = labels_text(common, {});
    text += fmt::format("{0}_sum{1} {2}\n{0}_count{1} {3}\n", metric.kind->name, labels,
                        number(histogram.sum), below);
}

}  // namespace

std::string metrics_text(const std::vector<Metric>& metrics, const Labels& common,
                         MetricFormat format) {
    std::string text;
    for (const Metric& metric : metrics) {
        if (metric.values.empty() && !metric.histogram)
            continue;
        const MetricKind& kind = *metric.kind;
        const std::string_view family = family_name(kind, format);
        text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family, escaped(kind.help, false),
                            family, type_word(kind.type, format));
        if (metric.histogram)
            add_histogram(text, metric, common, format);
        for (const MetricValue& value : metric.values)
            text += fmt::format("{}{} {}\n", kind.name, labels_text(common, value.labels),
                                number(value.value));
    }
    if (format == MetricFormat::openmetrics)
        text += "# EOF\n";
    return text;
}

MetricFormat format_wanted(std::string_view accept) {
    double open = 0, plain = 0;
    for (const std::string& range : split(accept, ',')) {
        const auto parts = split(range, ';');
        const std::string_view type = trim(parts.front());
        double weight = 1;
        for (const std::string& part : parts)
            if (const std::string_view word = trim(part); word.starts_with("q="))
                weight = std::strtod(std::string(word.substr(2)).c_str(), nullptr);
        if (type == "application/openmetrics-text")
            open = std::max(open, weight);
        else if (type == "text/plain")
            plain = std::max(plain, weight);
    }
    return open > 0 && open >= plain ? MetricFormat::openmetrics : MetricFormat::prometheus;
}

std::string_view content_type(MetricFormat format) {
    return format == MetricFormat::openmetrics
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace autolaunch::launcher
