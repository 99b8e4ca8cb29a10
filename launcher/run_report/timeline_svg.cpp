#include "run_report/timeline_svg.hpp"

#include "report/units.hpp"
#include "run_report/html_text.hpp"
#include "run_report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace autolaunch::launcher {

namespace {

constexpr double kWide = kPictureWide;
constexpr double kRow = 36, kMarks = 14;
constexpr double kChart = 160, kMargin = 6;
constexpr std::size_t kCellsInRow = 64;
constexpr double kCell = 14;
constexpr int kTicks = 4;

/// From a moment to the picture's x.
struct TimeScale {
    RecordTime from;
    double ms = 1;

    explicit TimeScale(const RunRecord& record)
        : from(record.started.value_or(RecordTime{})),
          ms(std::max(1.0, static_cast<double>(length_of(record).count()))) {}
    double at(RecordTime time) const {
        return std::clamp(static_cast<double>((time - from).count()) / ms, 0.0, 1.0) * kWide;
    }
};

/// A round number that is no less.
double rounded_up(double value) {
    if (!(value > 0))
        return 1;
    const double power = std::pow(10, std::floor(std::log10(value)));
    for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0})
        if (value <= step * power * (1 + 1e-9))
            return step * power;
    return 10 * power;
}

/// What a plot's height goes from and to.
struct Heights {
    double least = 0, most = 1;

    double at(double value) const {
        return kChart - kMargin - (value - least) / (most - least) * (kChart - 2 * kMargin);
    }
};

std::string grid() {
    std::string lines;
    for (int part = 1; part < kTicks; ++part)
        lines += fmt::format("<path d=\"M0 {0:g}H{1:g}M{2:g} 0V{3:g}\" class=\"grid\"/>\n",
                             kChart * part / kTicks, kWide, kWide * part / kTicks, kChart);
    return lines;
}

std::string failure_lines(const RunRecord& record, const TimeScale& scale) {
    std::string lines;
    for (const RecordFailure& failure : record.failures)
        lines +=
            fmt::format("<path d=\"M{:.2f} 0V{:g}\" class=\"failure\"><title>{}</title></path>\n",
                        scale.at(failure.at), kChart, html(failure.who + " " + failure.how));
    return lines;
}

/// With its name above, its scale beside and its moments below.
std::string plot(const RunRecord& record, std::string_view label, const Heights& heights,
                 const std::string& unit, const std::string& words, const std::string& content) {
    constexpr double kLarge = 1e4;
    std::string scale;
    for (const double value : {heights.most, (heights.least + heights.most) / 2, heights.least})
        scale += "<span>" +
                 (heights.most >= kLarge ? format_rate(value) : fmt::format("{:.4g}", value)) +
                 unit + "</span>";
    return fmt::format(
        "<figure class=\"plot\"><figcaption>{}</figcaption>\n<div class=\"scale\">{}</div>\n"
        "{}{}</figure>\n",
        html(label), scale, picture(kChart, words, grid() + content, "chart"), time_axis(record));
}

using Value = std::function<std::optional<double>(const RecordPace&)>;

/// The points of one generation after another: no line leads over a failure.
std::string lines_of(const RunRecord& record, const Value& value, const Heights& heights,
                     std::string_view style) {
    const TimeScale scale(record);
    std::string lines, points;
    const auto end_line = [&] {
        if (!points.empty())
            lines += fmt::format("<polyline points=\"{}\" class=\"line {}\"/>\n", points, style);
        points.clear();
    };
    auto failure = record.failures.begin();
    for (const RecordPace& pace : record.pace) {
        bool is_over = false;
        for (; failure != record.failures.end() && failure->at < pace.at; ++failure)
            is_over = true;
        if (is_over)
            end_line();
        const auto number = value(pace);
        if (number && std::isfinite(*number))
            points += fmt::format("{:.2f},{:.2f} ", scale.at(pace.at), heights.at(*number));
    }
    end_line();
    return lines;
}

std::string line_plot(const RunRecord& record, std::string_view label, std::string_view style,
                      const Value& value, bool from_zero) {
    double least = INFINITY, most = -INFINITY;
    std::size_t count = 0;
    for (const RecordPace& pace : record.pace)
        if (const auto number = value(pace); number && std::isfinite(*number)) {
            least = std::min(least, *number);
            most = std::max(most, *number);
            ++count;
        }
    if (count < 2)
        return {};
    Heights heights{from_zero ? 0 : least, from_zero ? rounded_up(most) : most};
    if (!(heights.most > heights.least))
        heights = {heights.least - 0.5, heights.least + 0.5};
    const std::string words = fmt::format("{}: least {:.4g}, most {:.4g}", label, least, most);
    return plot(record, label, heights, "", words,
                fmt::format("<title>{}</title>", html(words)) +
                    lines_of(record, value, heights, style) +
                    failure_lines(record, TimeScale(record)));
}

}  // namespace

std::string titled_rect(double x, double y, double width, double height, std::string_view style,
                        const std::string& title) {
    return fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "class=\"{}\"><title>{}</title></rect>\n",
        x, y, width, height, style, html(title));
}

std::string picture(double height, std::string_view label, const std::string& content,
                    std::string_view style) {
    return fmt::format(
        "<svg class=\"{}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:g} {:g}\" "
        "preserveAspectRatio=\"none\">\n{}</svg>\n",
        style, html(label), kWide, height, content);
}

std::string axis_moment(const RunRecord& record, RecordTime at) {
    const std::string text = format_moment(at);
    const auto length = length_of(record);
    return length > std::chrono::hours(24)     ? text.substr(5, 11)
           : length > std::chrono::minutes(10) ? text.substr(11, 5)
                                               : text.substr(11);
}

std::string time_axis(const RunRecord& record) {
    std::string moments;
    for (int tick = 0; tick <= kTicks; ++tick)
        moments += "<span>" +
                   axis_moment(record, record.started.value_or(RecordTime{}) +
                                           length_of(record) * tick / kTicks) +
                   "</span>";
    return "<p class=\"axis ticks\">" + moments + "</p>\n";
}

std::string timeline_svg(const RunRecord& record) {
    if (record.spans.empty())
        return {};
    const TimeScale scale(record);
    std::string content;
    for (const RecordSpan& span : record.spans)
        content += titled_rect(
            scale.at(span.from), 0, std::max(scale.at(span.to) - scale.at(span.from), 0.5), kRow,
            ledger_key(span.kind),
            fmt::format("{}, generation {}: {} from {} UTC", ledger_words(span.kind),
                        span.generation, format_duration(span.to - span.from),
                        format_moment(span.from)));
    for (const RecordCheckpoint& saved : record.checkpoints)
        content += titled_rect(scale.at(saved.at) - 1, kRow + 3, 2, kMarks, "saved",
                               fmt::format("checkpoint of step {}", saved.step));
    for (const RecordFailure& failure : record.failures)
        content += titled_rect(scale.at(failure.at) - 2, kRow + 3, 4, kMarks, "failed",
                               fmt::format("{} {} {}", failure.who, failure.how, failure.cause));
    return picture(kRow + kMarks + 4,
                   fmt::format("timeline: {} in {} parts, {} failures, {} checkpoints",
                               format_duration(length_of(record)), record.spans.size(),
                               record.failures.size(), record.checkpoint_count),
                   content, "bar");
}

std::string ledger_svg(const Ledger& ledger) {
    const double total = static_cast<double>(total_ms(ledger));
    if (total <= 0)
        return {};
    std::string content;
    double x = 0;
    for (std::size_t i = 0; i < kLedgerKinds; ++i) {
        const auto kind = static_cast<LedgerKind>(i);
        const double share = static_cast<double>(ledger.of(kind)) / total;
        if (share <= 0)
            continue;
        content += titled_rect(x, 0, share * kWide, kRow, ledger_key(kind),
                               fmt::format("{}: {:.1f}%", ledger_words(kind), share * 100));
        x += share * kWide;
    }
    return picture(kRow, "shares of the time: " + ledger_line(ledger), content, "bar low");
}

std::string pace_plot(const RunRecord& record) {
    return line_plot(
        record, "steps a second", "steps",
        [](const RecordPace& pace) { return std::optional(pace.steps_per_second); }, true);
}

std::string tokens_plot(const RunRecord& record) {
    return line_plot(
        record, "tokens a second", "steps",
        [](const RecordPace& pace) { return pace.tokens_per_second; }, true);
}

std::string loss_plot(const RunRecord& record) {
    return line_plot(
        record, "loss", "loss", [](const RecordPace& pace) { return pace.loss; }, false);
}

std::string stalls_plot(const RunRecord& record) {
    double most = 0;
    for (const RecordCheckpoint& saved : record.checkpoints)
        most = std::max(most, saved.stall_seconds);
    if (!(most > 0) || !std::isfinite(most))
        return {};
    const TimeScale scale(record);
    const Heights heights{0, rounded_up(most)};
    std::string bars;
    for (const RecordCheckpoint& saved : record.checkpoints) {
        if (!std::isfinite(saved.stall_seconds))
            continue;
        const double top = heights.at(saved.stall_seconds), width = 4;
        bars += titled_rect(std::clamp(scale.at(saved.at) - width / 2, 0.0, kWide - width), top,
                            width, std::max(kChart - kMargin - top, 1.0), "stall",
                            fmt::format("step {}: {:.3g} s", saved.step, saved.stall_seconds));
    }
    return plot(
        record, "stall of each checkpoint", heights, " s",
        fmt::format("stalls of {} checkpoints, {:.3g} s at most", record.checkpoints.size(), most),
        bars + failure_lines(record, scale));
}

std::string ranks_svg(const RunRecord& record) {
    std::string cells;
    std::size_t column = 0, row = 0;
    const std::string* node = nullptr;
    int on_node = 0;
    for (const RecordRank& rank : record.ranks) {
        const bool next_node = node != nullptr && *node != rank.node;
        if (next_node)
            on_node = 0;
        if (column == kCellsInRow) {
            column = 0;
            ++row;
        }
        node = &rank.node;
        ++on_node;
        std::string title = fmt::format("rank {} on {}", rank.rank, rank.node);
        if (rank.gpu)
            title += fmt::format(", GPU {}", *rank.gpu);
        if (!rank.end.empty())
            title += ", " + rank.end;
        const double left = static_cast<double>(column) * kCell + (on_node == 1 ? 2 : 0);
        cells +=
            titled_rect(left, static_cast<double>(row) * kCell, kCell - 2 - (on_node == 1 ? 2 : 0),
                        kCell - 2, rank.failed ? "failed" : "rank", title);
        ++column;
    }
    const double width = static_cast<double>(std::min(kCellsInRow, record.ranks.size())) * kCell;
    return fmt::format(
        "<svg class=\"ranks\" role=\"img\" aria-label=\"{} ranks, each a cell; a "
        "table follows\" viewBox=\"0 0 {:g} {:g}\" style=\"max-width:{:g}px\">\n{}"
        "</svg>\n",
        record.ranks.size(), width, static_cast<double>(row + 1) * kCell, width, cells);
}

}  // namespace autolaunch::launcher
