#include "run_report/gpu_time_part.hpp"

#include "idle/receipt.hpp"
#include "report/units.hpp"
#include "run_report/html_text.hpp"
#include "run_report/report.hpp"
#include "run_report/timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr double kRowHigh = 18, kRowGap = 3;
constexpr double kWorthAWord = 0.005;

/// A line of the pictures: a GPU, or those of a node together.
struct Row {
    std::string name;
    std::size_t gpus = 0;
    GpuUseSeconds time = {};
    std::vector<GpuUseSeconds> course = {};

    void add(const GpuTime& gpu) {
        ++gpus;
        time.add(gpu.time);
        course.resize(std::max(course.size(), gpu.course.size()));
        for (std::size_t part = 0; part < gpu.course.size(); ++part)
            course[part].add(gpu.course[part]);
    }
};

std::string rank_words(const std::vector<int>& ranks) {
    if (ranks.empty())
        return "no rank";
    return ranks.size() == 1 ? fmt::format("rank {}", ranks[0])
                             : fmt::format("ranks {}-{}", ranks.front(), ranks.back());
}

std::vector<Row> rows_by_node(const JobGpuTime& job) {
    std::vector<Row> rows;
    const std::string* node = nullptr;
    for (const GpuTime& gpu : job.gpus) {
        if (node == nullptr || *node != gpu.node)
            rows.push_back({.name = gpu.node});
        node = &gpu.node;
        rows.back().add(gpu);
    }
    return rows;
}

// So many next to each other become one that there is a row for each.
std::vector<Row> folded(const std::vector<Row>& rows) {
    const std::size_t together = (rows.size() + kMostGpuRows - 1) / kMostGpuRows;
    std::vector<Row> fewer;
    for (std::size_t at = 0; at < rows.size(); ++at) {
        if (at % together == 0) {
            fewer.push_back(rows[at]);
            continue;
        }
        Row& row = fewer.back();
        row.gpus += rows[at].gpus;
        row.time.add(rows[at].time);
        for (std::size_t part = 0; part < std::min(row.course.size(), rows[at].course.size());
             ++part)
            row.course[part].add(rows[at].course[part]);
        if (at % together == together - 1 || at + 1 == rows.size())
            row.name += " – " + rows[at].name;
    }
    return fewer;
}

std::vector<Row> rows_of(const JobGpuTime& job) {
    if (job.gpus.size() > kMostGpuRows)
        return folded(rows_by_node(job));
    std::vector<Row> rows;
    for (const GpuTime& gpu : job.gpus) {
        rows.push_back(
            {.name = fmt::format("{} {}, {}", gpu.node, gpu.bdf, rank_words(gpu.ranks))});
        rows.back().add(gpu);
    }
    return rows;
}

std::string percent_of(double part, double all) {
    return fmt::format("{:.0f}%", all > 0 ? 100 * part / all : 0);
}

/// "used 61%, input 31%": the largest first.
std::string words_of(const GpuUseSeconds& time) {
    const double held = time.held();
    std::vector<std::pair<double, GpuUse>> uses;
    for (std::size_t use = 0; use < kGpuUses; ++use)
        if (time.seconds.at(use) >= kWorthAWord * held && held > 0)
            uses.emplace_back(time.seconds.at(use), static_cast<GpuUse>(use));
    std::stable_sort(uses.begin(), uses.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string words;
    for (const auto& [seconds, use] : uses)
        words += fmt::format("{}{} {}", words.empty() ? "" : ", ", gpu_use_words(use),
                             percent_of(seconds, held));
    return words;
}

/// Names beside, so that they stay letters where the picture is stretched.
std::string named_rows(const std::vector<Row>& rows, const std::string& picture) {
    std::string names;
    for (const Row& row : rows)
        names += fmt::format("<span title=\"{0}\">{0}</span>", html(row.name));
    return "<div class=\"rows\"><div class=\"names\" aria-hidden=\"true\">" + names +
           "</div><div class=\"of-rows\">" + picture + "</div></div>\n";
}

std::string rows_picture(const std::vector<Row>& rows, const std::string& label,
                         const std::string& content) {
    const double high = static_cast<double>(rows.size()) * (kRowHigh + kRowGap);
    return fmt::format(
        "<svg class=\"gpu-rows\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:g} {:g}\" "
        "preserveAspectRatio=\"none\" style=\"height:{:g}px\">\n{}</svg>\n",
        html(label), kPictureWide, high, high, content);
}

std::string causes_picture(const std::vector<Row>& rows) {
    std::string content;
    for (std::size_t at = 0; at < rows.size(); ++at) {
        const GpuUseSeconds& time = rows[at].time;
        const double held = time.held(), y = static_cast<double>(at) * (kRowHigh + kRowGap);
        double x = 0;
        for (std::size_t use = 0; use < kGpuUses && held > 0; ++use) {
            const double wide = time.seconds.at(use) / held * kPictureWide;
            if (wide <= 0)
                continue;
            content += titled_rect(x, y, wide, kRowHigh,
                                   fmt::format("use-{}", gpu_use_key(static_cast<GpuUse>(use))),
                                   fmt::format("{}: {} {} ({})", rows[at].name,
                                               gpu_use_words(static_cast<GpuUse>(use)),
                                               percent_of(time.seconds.at(use), held),
                                               format_duration(std::chrono::milliseconds(
                                                   std::llround(time.seconds.at(use) * 1000)))));
            x += wide;
        }
    }
    return rows_picture(rows, "shares of each GPU's time by cause; a table follows", content);
}

/// How much of its time a part was used, in twentieths; nothing where that is not known, or the job
/// held no GPU then.
std::optional<int> shade_of(const GpuUseSeconds& part) {
    const double held = part.held(), known = held - part.of(GpuUse::unmeasured);
    if (held <= 0 || known < held / 2)
        return std::nullopt;
    return static_cast<int>(std::lround(20 * part.of(GpuUse::used) / known));
}

std::string heat_row(const RunRecord& record, const Row& row, double y) {
    std::string content;
    const auto count = row.course.size();
    const double wide = kPictureWide / static_cast<double>(count);
    for (std::size_t from = 0; from < count;) {
        const auto shade = shade_of(row.course[from]);
        GpuUseSeconds sum;
        std::size_t to = from;
        for (; to < count && shade_of(row.course[to]) == shade; ++to)
            sum.add(row.course[to]);
        const double x = static_cast<double>(from) * wide;
        const auto moment = [&](std::size_t part) {
            return axis_moment(
                record, record.started.value_or(RecordTime{}) +
                            length_of(record) * static_cast<int>(part) / static_cast<int>(count));
        };
        if (sum.held() > 0)
            content += titled_rect(
                x, y, wide * static_cast<double>(to - from), kRowHigh,
                shade ? fmt::format("heat-{}", *shade) : "use-unmeasured",
                fmt::format("{}, {} to {}: {}", row.name, moment(from), moment(to), words_of(sum)));
        from = to;
    }
    return content;
}

std::string heat_map(const RunRecord& record, const std::vector<Row>& rows) {
    if (rows.empty() || rows.front().course.empty())
        return {};
    std::string content;
    for (std::size_t at = 0; at < rows.size(); ++at)
        content += heat_row(record, rows[at], static_cast<double>(at) * (kRowHigh + kRowGap));
    std::string legend;
    for (const int shade : {0, 5, 10, 15, 20})
        legend += fmt::format(
            "<li><svg aria-hidden=\"true\" viewBox=\"0 0 10 10\"><rect width=\"10\" height=\"10\" "
            "class=\"heat-{}\"/></svg>{}% used</li>\n",
            shade, shade * 5);
    return "<h4>How busy, over time</h4>\n" +
           named_rows(rows,
                      rows_picture(rows, "use of each GPU over time; a table follows", content) +
                          time_axis(record)) +
           "<ul class=\"legend\" aria-label=\"shades\">\n" + legend + "</ul>\n";
}

std::string legend_of(const GpuUseSeconds& total) {
    std::string items;
    for (std::size_t use = 0; use < kGpuUses; ++use)
        if (total.seconds.at(use) > 0)
            items += fmt::format(
                "<li><svg aria-hidden=\"true\" viewBox=\"0 0 10 10\"><rect width=\"10\" "
                "height=\"10\" class=\"use-{}\"/></svg>{} {}</li>\n",
                gpu_use_key(static_cast<GpuUse>(use)), gpu_use_words(static_cast<GpuUse>(use)),
                percent_of(total.seconds.at(use), total.held()));
    return "<ul class=\"legend\" aria-label=\"colours\">\n" + items + "</ul>\n";
}

std::string table_of(const std::vector<Row>& rows, const GpuUseSeconds& total) {
    std::vector<std::string> head{"GPU", "held"};
    std::vector<std::size_t> uses;
    for (std::size_t use = 0; use < kGpuUses; ++use)
        if (total.seconds.at(use) > 0) {
            uses.push_back(use);
            head.emplace_back(gpu_use_words(static_cast<GpuUse>(use)));
        }
    std::vector<std::vector<std::string>> cells;
    for (const Row& row : rows) {
        cells.push_back({html(row.name), format_duration(std::chrono::milliseconds(
                                             std::llround(row.time.held() * 1000)))});
        for (const std::size_t use : uses)
            cells.back().push_back(percent_of(row.time.seconds.at(use), row.time.held()));
    }
    return html_details("the time of GPUs as a table", html_table("time of GPUs", head, cells));
}

}  // namespace

std::string gpu_use_styles() {
    std::string styles;
    for (std::size_t use = 0; use < kGpuUses; ++use) {
        const char* key = gpu_use_key(static_cast<GpuUse>(use));
        styles += fmt::format(".use-{0} {{ fill: var(--use-{0}); }}\n", key);
    }
    for (int shade = 0; shade <= 20; ++shade)
        styles +=
            fmt::format(".heat-{} {{ fill: color-mix(in srgb, var(--steps) {}%, var(--cold)); }}\n",
                        shade, shade * 5);
    return styles;
}

std::string gpu_time_part(const RunRecord& record) {
    const JobGpuTime& job = record.gpu_time;
    const auto lines = receipt_of(job).lines();
    if (lines.empty())
        return {};
    const std::vector<Row> rows = rows_of(job);
    std::string text = "<h3>Where the time of GPUs went</h3>\n<ul class=\"receipt\">\n";
    for (const std::string& line : lines)
        text += "<li>" + html(line) + "</li>\n";
    text += "</ul>\n";
    if (rows.size() < job.gpus.size())
        text += fmt::format("<p class=\"faint\">{} GPUs in {} rows, of a node or more each.</p>\n",
                            job.gpus.size(), rows.size());
    const GpuUseSeconds total = job.total();
    return text + named_rows(rows, causes_picture(rows)) + legend_of(total) +
           heat_map(record, rows) + table_of(rows, total);
}

}  // namespace autolaunch::launcher
