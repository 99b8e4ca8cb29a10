#include "top/top_rows.hpp"

#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr const char* kUnknown = "?";
constexpr const char* kNone = "-";
constexpr double kSilentSeconds = 10;  // and this many usual steps
constexpr double kSilentSteps = 5;
constexpr auto kSilence = std::chrono::seconds(15);
constexpr int kRankDoings = 7;

template <class Words>
std::string known(const std::optional<double>& value, const Words& words) {
    return value && std::isfinite(*value) ? words(*value) : kUnknown;
}
std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::string& cell(TopRow& row, TopColumn column) {
    return row.cells[static_cast<std::size_t>(column)];
}

Ink ink_of(RankDoing doing) {
    switch (doing) {
        case RankDoing::stuck:
        case RankDoing::failed:
        case RankDoing::lost:
            return Ink::red;
        case RankDoing::starting:
        case RankDoing::stopping:
            return Ink::yellow;
        case RankDoing::done:
            return Ink::dim;
        case RankDoing::running:
            break;
    }
    return Ink::plain;
}

std::optional<double> gpu_memory_share(const RankReadings& readings) {
    if (!readings.gpu_bytes || !readings.gpu_bytes_total || *readings.gpu_bytes_total <= 0)
        return std::nullopt;
    return *readings.gpu_bytes / *readings.gpu_bytes_total;
}

std::string note_of(const RankView& rank) {
    if (!rank.note.empty())
        return rank.note;
    const double long_ago = std::max(kSilentSeconds, kSilentSteps * rank.step_seconds.value_or(0));
    if (rank.doing == RankDoing::running && rank.step && rank.silent_seconds.value_or(0) > long_ago)
        return "no step for " + format_duration(std::chrono::milliseconds(
                                    std::llround(*rank.silent_seconds * 1000)));
    return {};
}

TopRow row_of(const RankView& rank) {
    TopRow row{.rank = rank.rank};
    cell(row, TopColumn::rank) = std::to_string(rank.rank);
    cell(row, TopColumn::node) = rank.node.empty() ? kUnknown : rank.node;
    cell(row, TopColumn::state) = name_of(rank.doing);
    cell(row, TopColumn::step) = rank.step ? std::to_string(*rank.step) : kUnknown;
    cell(row, TopColumn::time) = known(rank.step_seconds, short_time);
    cell(row, TopColumn::wait) = known(rank.wait_share, percent);
    const bool no_gpu = !rank.gpu && !rank.readings.gpu_percent;
    const auto of_gpu = [no_gpu](std::string text) { return no_gpu ? kNone : std::move(text); };
    cell(row, TopColumn::gpu) = of_gpu(known(
        rank.readings.gpu_percent, [](double value) { return fmt::format("{:.0f}%", value); }));
    cell(row, TopColumn::gpu_memory) = of_gpu(known(gpu_memory_share(rank.readings), percent));
    cell(row, TopColumn::heat) = of_gpu(known(
        rank.readings.gpu_celsius, [](double value) { return fmt::format("{:.0f}C", value); }));
    cell(row, TopColumn::hca) = known(rank.readings.hca_bytes_per_second, short_bytes);
    cell(row, TopColumn::rss) = known(rank.readings.rss_bytes, short_bytes);
    row.note = note_of(rank);
    row.straggler = rank.straggler;
    row.ink = rank.straggler && rank.doing == RankDoing::running ? Ink::yellow : ink_of(rank.doing);
    return row;
}

/// Of values that some ranks have: their mean, least and most.
struct Spread {
    double sum = 0, least = 0, most = 0;
    int count = 0;
    void add(const std::optional<double>& value) {
        if (!value || !std::isfinite(*value))
            return;
        least = count == 0 ? *value : std::min(least, *value);
        most = count == 0 ? *value : std::max(most, *value);
        sum += *value;
        ++count;
    }
    std::optional<double> mean() const {
        return count > 0 ? std::optional(sum / count) : std::nullopt;
    }
    std::optional<double> top() const { return count > 0 ? std::optional(most) : std::nullopt; }
    std::optional<double> total() const { return count > 0 ? std::optional(sum) : std::nullopt; }
};

/// What is worst for the job stands for a node: its slowest step, the least wait, the hottest GPU.
struct NodeSum {
    RankView worst;  ///< of its ranks
    int ranks = 0, stragglers = 0, gpus = 0;
    std::optional<std::int64_t> step;
    Spread time, wait, gpu, gpu_memory, heat, hca, rss;

    void add(const RankView& rank) {
        const auto badness = [](RankDoing doing) {
            return doing == RankDoing::done ? -1 : static_cast<int>(doing);
        };
        if (ranks++ == 0 || badness(rank.doing) > badness(worst.doing))
            worst = rank;
        stragglers += rank.straggler ? 1 : 0;
        gpus += rank.gpu ? 1 : 0;
        if (rank.step)
            step = std::min(step.value_or(*rank.step), *rank.step);
        time.add(rank.step_seconds);
        wait.add(rank.wait_share);
        gpu.add(rank.readings.gpu_percent);
        gpu_memory.add(gpu_memory_share(rank.readings));
        heat.add(rank.readings.gpu_celsius);
        hca.add(rank.readings.hca_bytes_per_second);
        rss.add(rank.readings.rss_bytes);
    }
};

TopRow row_of(const NodeSum& node, int lowest) {
    RankView all = node.worst;
    all.rank = lowest;
    all.step = node.step;
    all.step_seconds = node.time.top();
    all.wait_share = node.wait.count > 0 ? std::optional(node.wait.least) : std::nullopt;
    all.straggler = node.stragglers > 0;
    all.readings = {.gpu_percent = node.gpu.mean(), .gpu_celsius = node.heat.top()};
    all.readings.hca_bytes_per_second = node.hca.total();
    all.readings.rss_bytes = node.rss.total();
    if (const auto share = node.gpu_memory.top()) {
        all.readings.gpu_bytes = *share;
        all.readings.gpu_bytes_total = 1;
    }
    if (node.gpus > 0 && !all.gpu)
        all.gpu = 0;
    TopRow row = row_of(all);
    row.ranks = node.ranks;
    cell(row, TopColumn::rank) = fmt::format("x{}", node.ranks);
    if (!row.note.empty())
        row.note = fmt::format("rank {}: {}", node.worst.rank, row.note);
    return row;
}

std::vector<TopRow> rows_by_node(const JobView& view) {
    std::vector<std::pair<NodeSum, int>> nodes;
    std::map<std::string, std::size_t> places;
    for (const RankView& rank : view.ranks) {
        const auto [place, is_new] = places.emplace(rank.node, nodes.size());
        if (is_new)
            nodes.emplace_back(NodeSum{}, rank.rank);
        nodes[place->second].first.add(rank);
    }
    std::vector<TopRow> rows;
    for (const auto& [node, lowest] : nodes)
        rows.push_back(row_of(node, lowest));
    return rows;
}

/// Ranks with a larger one come first; those of which it is not known last.
std::optional<double> weight_of(const RankView& rank, TopOrder order) {
    switch (order) {
        case TopOrder::step:
            return rank.step ? std::optional(-static_cast<double>(*rank.step)) : std::nullopt;
        case TopOrder::step_time:
            return rank.step_seconds;
        case TopOrder::wait:
            return rank.wait_share ? std::optional(-*rank.wait_share) : std::nullopt;
        case TopOrder::gpu:
            return rank.readings.gpu_percent ? std::optional(-*rank.readings.gpu_percent)
                                             : std::nullopt;
        case TopOrder::memory:
            return rank.readings.rss_bytes;
        case TopOrder::rank:
            break;
    }
    return std::nullopt;
}

std::string table_line(const TopRow& row) {
    std::string line(1, row.straggler ? '!' : ' ');
    for (std::size_t at = 0; at < kTopColumns; ++at) {
        const std::string text = fit_width(row.cells[at], kTopShapes[at].width);
        const std::string blanks(
            static_cast<std::size_t>(std::max(0, kTopShapes[at].width - display_width(text))), ' ');
        line += ' ' + (kTopShapes[at].right ? blanks + text : text + blanks);
    }
    if (!row.note.empty())
        line += "  " + plain_words(row.note, Charset::utf8);
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
}

}  // namespace

const char* name_of(TopOrder order) {
    switch (order) {
        case TopOrder::step:
            return "step";
        case TopOrder::step_time:
            return "slowest step";
        case TopOrder::wait:
            return "least wait";
        case TopOrder::gpu:
            return "idlest GPU";
        case TopOrder::memory:
            return "memory";
        case TopOrder::rank:
            break;
    }
    return "rank";
}

std::string short_time(double seconds) {
    if (seconds < 0.0995)
        return fmt::format("{:.0f} ms", seconds * 1000);
    if (seconds < 9.995)
        return fmt::format("{:.2f} s", seconds);
    if (seconds < 9'999.5)
        return fmt::format("{:.0f} s", seconds);
    return seconds < 5'999'700 ? fmt::format("{:.0f} min", seconds / 60) : "long";
}

std::string short_bytes(double bytes) { return format_rate(std::max(0.0, bytes)); }

std::vector<TopRow> rows_of(const JobView& view, TopOrder order, bool by_node) {
    if (by_node)
        return rows_by_node(view);
    std::vector<const RankView*> ranks;
    for (const RankView& rank : view.ranks)
        ranks.push_back(&rank);
    const auto comes_first = [order](const RankView* one, const RankView* other) {
        const auto first = weight_of(*one, order), second = weight_of(*other, order);
        return first.has_value() != second.has_value() ? first.has_value() : first > second;
    };
    std::stable_sort(ranks.begin(), ranks.end(), comes_first);
    std::vector<TopRow> rows;
    for (const RankView* rank : ranks)
        rows.push_back(row_of(*rank));
    return rows;
}

std::string count_ranks(const JobView& view) {
    std::array<int, kRankDoings> counts{};
    int stragglers = 0;
    for (const RankView& rank : view.ranks) {
        ++counts[static_cast<std::size_t>(rank.doing)];
        stragglers += rank.straggler ? 1 : 0;
    }
    std::string text;
    for (int doing = 0; doing < kRankDoings; ++doing)
        if (const int count = counts[static_cast<std::size_t>(doing)]; count > 0)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count,
                                name_of(static_cast<RankDoing>(doing)));
    if (stragglers > 0)
        text += fmt::format(", {} waited for", stragglers);
    return text;
}

std::string headline_of(const JobView& view) {
    const auto counted = [](int count, const char* what) {
        return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
    };
    std::string line = view.job_name.empty() ? view.run_dir : view.job_name;
    if (!view.run_id.empty())
        line += " · job " + view.run_id;
    line += " · " + view.state;
    if (view.exit_code)
        line += fmt::format(": {} ({})", view.outcome, *view.exit_code);
    if (view.generation > 0)
        line += fmt::format(" · generation {}", view.generation);
    if (view.restarts > 0)
        line += " · " + counted(view.restarts, "restart");
    if (view.world_size > 0)
        line += " · " + counted(view.node_count, "node") + " · " + counted(view.world_size, "rank");
    if (view.started)
        line += " · " + format_duration(std::max(view.ended.value_or(view.at) - *view.started,
                                                 std::chrono::milliseconds(1)));
    if (!view.ended && view.last_heard && view.at - *view.last_heard > kSilence)
        line += " · nothing heard for " + format_duration(view.at - *view.last_heard);
    return line;
}

std::string progress_of(const JobView& view, int columns) {
    if (view.progress.known()) {
        std::string line = view.progress.line(columns);
        if (view.ended && line.ends_with(" left"))  // of a job that goes on
            line.erase(std::max(line.rfind(" · ") + 1, line.rfind("  ") + 1) - 1);
        return line;
    }
    return view.ranks.empty() ? "no rank has started yet" : "no rank has reported a step yet";
}

std::string top_table(const JobView& view) {
    std::string text = headline_of(view) + '\n' + progress_of(view, 0) + '\n';
    if (!view.doubt.empty())
        text += view.doubt + '\n';
    if (view.ranks.empty())
        return text;
    TopRow titles;
    for (std::size_t at = 0; at < kTopColumns; ++at)
        titles.cells[at] = kTopShapes[at].title;
    text += '\n' + table_line(titles);
    for (const TopRow& row : rows_of(view, TopOrder::rank, false))
        text += table_line(row);
    text += '\n' + count_ranks(view) + '\n';
    for (const std::string& news : view.news)
        text += plain_words(news, Charset::utf8) + '\n';
    for (const std::string& gap : view.gaps)
        text += "missing: " + plain_words(gap, Charset::utf8) + '\n';
    return text;
}

}  // namespace autolaunch::launcher
