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

constexpr double kWide = 1000;  // of every picture; the page stretches it
constexpr double kRow = 36, kMarks = 14;
constexpr double kChart = 160;
constexpr std::size_t kCellsInRow = 64;
constexpr double kCell = 14;

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

// A line through the points; gaps of what is not there, and the scale begins at `least`.
std::string chart(const RunRecord& record, std::string_view label, std::string_view style,
                  const std::function<std::optional<double>(const RecordPace&)>& value,
                  bool from_zero) {
    double least = from_zero ? 0 : INFINITY, most = from_zero ? 0 : -INFINITY;
    for (const RecordPace& pace : record.pace) {
        const auto number = value(pace);
        if (!number || !std::isfinite(*number))
            continue;
        least = std::min(least, *number);
        most = std::max(most, *number);
    }
    if (!(most >= least) || record.pace.size() < 2)
        return {};
    const double range = most > least ? most - least : 1;
    const TimeScale scale(record);
    std::string points;
    for (const RecordPace& pace : record.pace) {
        const auto number = value(pace);
        if (number && std::isfinite(*number))
            points += fmt::format("{:.2f},{:.2f} ", scale.at(pace.at),
                                  kChart - 4 - (*number - least) / range * (kChart - 8));
    }
    std::string grid;
    for (const double part : {0.25, 0.5, 0.75})
        grid += fmt::format("<path d=\"M0 {0:g}H{1:g}\" class=\"grid\"/>\n", kChart * part, kWide);
    const std::string words = fmt::format("{}: least {:.4g}, most {:.4g}", label, least, most);
    return fmt::format("<p class=\"axis\"><span>{}</span><span>{:.4g} to {:.4g}</span></p>\n",
                       html(label), least, most) +
           picture(kChart, words,
                   fmt::format("<title>{}</title>{}<polyline points=\"{}\" class=\"line {}\"/>\n",
                               html(words), grid, points, style),
                   "chart");
}

}  // namespace

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

std::string pace_svg(const RunRecord& record) {
    return chart(
        record, "steps a second", "steps",
        [](const RecordPace& pace) { return std::optional(pace.steps_per_second); }, true);
}

std::string loss_svg(const RunRecord& record) {
    return chart(
        record, "loss", "loss", [](const RecordPace& pace) { return pace.loss; }, false);
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
