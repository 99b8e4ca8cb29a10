#include "sweep/sweep_table.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr int kToBeRequeued = 75;
constexpr std::array<ElementState, 6> kStates = {ElementState::done,    ElementState::running,
                                                 ElementState::pending, ElementState::stopped_early,
                                                 ElementState::failed,  ElementState::unknown};

bool is_slurms_end(const std::string& state) {
    static const std::set<std::string> kEnds = {"COMPLETED", "FAILED",    "CANCELLED",
                                                "TIMEOUT",   "NODE_FAIL", "PREEMPTED",
                                                "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY"};
    return kEnds.contains(state);
}

ElementStanding by_record(const ElementRecord& record) {
    if (!record.stopped_early.empty())
        return {ElementState::stopped_early, record.stopped_early};
    if (record.exit_code == 0)
        return {ElementState::done, ""};
    if (record.exit_code == kToBeRequeued)
        return {ElementState::pending, record.outcome};
    return {ElementState::failed,
            fmt::format("{}, exit code {}", record.outcome, record.exit_code.value_or(1))};
}

ElementStanding by_slurm(const ElementRecord* own, const std::string& slurm) {
    if (slurm == "PENDING" || slurm.starts_with("REQUEUE"))
        return {ElementState::pending, own == nullptr ? "" : "requeued"};
    if (own != nullptr && own->ended)
        return by_record(*own);
    if (!is_slurms_end(slurm))
        return {ElementState::running, slurm == "RUNNING" ? "" : slurm};
    if (own == nullptr)
        return {slurm == "COMPLETED" ? ElementState::unknown : ElementState::failed,
                "Slurm: " + slurm + "; it has left no record: its output says more"};
    return {slurm == "COMPLETED" ? ElementState::done : ElementState::failed,
            "Slurm: " + slurm + "; its end is not recorded"};
}

std::string number_text(double value) {
    return std::isfinite(value) ? fmt::format("{:.6g}", value) : "nan";
}

bool has_value(const ElementRow& row) { return row.record && row.record->history.count > 0; }

std::vector<std::string> cells(const ElementRow& row, const std::vector<std::string>& keys) {
    std::vector<std::string> line = {std::to_string(row.element)};
    for (const std::string& key : keys) {
        const auto found = std::find_if(row.values.begin(), row.values.end(),
                                        [&](const auto& value) { return value.first == key; });
        line.push_back(found == row.values.end() ? "-" : found->second);
    }
    line.push_back(name_of(row.standing.state));
    if (!has_value(row)) {
        line.insert(line.end(), {"-", "-", "-"});
        return line;
    }
    const MetricHistory& history = row.record->history;
    line.push_back(std::to_string(history.newest_step) +
                   (row.record->total_steps ? '/' + std::to_string(*row.record->total_steps) : ""));
    line.push_back(number_text(history.last));
    line.push_back(number_text(history.best) + " @" + std::to_string(history.best_step));
    return line;
}

std::vector<std::string> keys_of(const SweepTable& table) {
    std::vector<std::string> keys;
    for (const ElementRow& row : table.rows)
        for (const auto& [key, value] : row.values)
            if (std::find(keys.begin(), keys.end(), key) == keys.end())
                keys.push_back(key);
    return keys;
}

/// Columns as wide as their longest cell; the last one's end is the line's.
std::string grid_text(const std::vector<std::vector<std::string>>& lines) {
    std::vector<std::size_t> widths(lines[0].size());
    for (const auto& line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    std::string text;
    for (const auto& line : lines) {
        std::string row;
        for (std::size_t i = 0; i < line.size(); ++i)
            row += fmt::format("  {:<{}}", line[i], widths[i]);
        text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

std::string counts_text(const SweepTable& table) {
    std::vector<std::string> counts;
    for (const ElementState state : kStates) {
        const auto count =
            std::count_if(table.rows.begin(), table.rows.end(),
                          [&](const ElementRow& row) { return row.standing.state == state; });
        if (count > 0)
            counts.push_back(fmt::format("{} {}", count, name_of(state)));
    }
    return join(counts, " · ");
}

}  // namespace

std::string name_of(ElementState state) {
    switch (state) {
        case ElementState::pending:
            return "pending";
        case ElementState::running:
            return "running";
        case ElementState::done:
            return "done";
        case ElementState::stopped_early:
            return "stopped early";
        case ElementState::failed:
            return "failed";
        case ElementState::unknown:
            break;
    }
    return "not known";
}

ElementStanding judge_element(const ElementRecord* record, const std::optional<std::string>& slurm,
                              const std::string& array_job, bool answered) {
    // An earlier start's, where the element was submitted again.
    const bool is_own = record != nullptr && record->array_job == array_job;
    if (slurm)
        return by_slurm(is_own ? record : nullptr, *slurm);
    if (is_own && record->ended)
        return by_record(*record);
    if (is_own)
        return answered ? ElementStanding{ElementState::failed,
                                          "Slurm knows it no longer, and its end is not recorded"}
                        : ElementStanding{ElementState::unknown,
                                          "it ran at " + record->updated +
                                              "; Slurm could not be asked whether it does"};
    return answered ? ElementStanding{ElementState::failed,
                                      "Slurm knows it no longer, and it has left no record"}
                    : ElementStanding{ElementState::unknown,
                                      "it has not begun to run, as far as its folder says"};
}

void sort_rows(SweepTable& table) {
    std::stable_sort(
        table.rows.begin(), table.rows.end(), [&](const ElementRow& a, const ElementRow& b) {
            if (!has_value(a) || !has_value(b))
                return has_value(a) != has_value(b) ? has_value(a) : a.element < b.element;
            const double first = a.record->history.best, second = b.record->history.best;
            if (is_better(first, second, table.maximise) !=
                is_better(second, first, table.maximise))
                return is_better(first, second, table.maximise);
            return a.element < b.element;
        });
}

std::string sweep_text(const SweepTable& table) {
    std::string text =
        fmt::format("{} · {} elements, the {} {} first\n", table.folder, table.rows.size(),
                    table.maximise ? "highest" : "lowest", table.metric);
    const std::vector<std::string> keys = keys_of(table);
    std::vector<std::vector<std::string>> lines(1);
    lines[0].emplace_back("element");
    lines[0].insert(lines[0].end(), keys.begin(), keys.end());
    lines[0].insert(lines[0].end(), {"state", "step", table.metric, "best"});
    for (const ElementRow& row : table.rows)
        lines.push_back(cells(row, keys));
    text += grid_text(lines) + counts_text(table) + '\n';
    for (const ElementRow& row : table.rows)
        if (!row.standing.note.empty())
            text += fmt::format("element {}: {}\n", row.element, row.standing.note);
    for (const std::string& note : table.notes)
        text += note + '\n';
    if (const auto failed = failed_elements(table); !failed.empty())
        text += fmt::format("autolaunch sweep resubmit {} starts {} again\n", table.folder,
                            failed.size() == 1 ? "the failed one" : "the failed ones");
    return text;
}

std::string sweep_json(const SweepTable& table) {
    using OrderedJson = nlohmann::ordered_json;
    OrderedJson rows = OrderedJson::array();
    for (const ElementRow& row : table.rows) {
        OrderedJson one = {{"element", row.element}, {"values", OrderedJson::object()}};
        for (const auto& [key, value] : row.values)
            one["values"][key] = value;
        one["job"] = row.array_job.empty()
                         ? OrderedJson()
                         : OrderedJson(fmt::format("{}_{}", row.array_job, row.element));
        one["state"] = name_of(row.standing.state);
        one["note"] = row.standing.note;
        one["run_dir"] = row.record ? OrderedJson(row.record->run_dir) : OrderedJson();
        if (has_value(row)) {
            const MetricHistory& history = row.record->history;
            const auto number = [](double value) {
                return std::isfinite(value) ? OrderedJson(value) : OrderedJson();
            };
            one["step"] = history.newest_step;
            one["last"] = number(history.last);
            one["best"] = number(history.best);
            one["best_step"] = history.best_step;
        }
        if (row.record && row.record->exit_code)
            one["exit_code"] = *row.record->exit_code;
        rows.push_back(std::move(one));
    }
    const OrderedJson json = {{"format", 1},
                              {"folder", table.folder},
                              {"metric", table.metric},
                              {"mode", table.maximise ? "max" : "min"},
                              {"elements", std::move(rows)},
                              {"notes", table.notes}};
    return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

std::vector<int> failed_elements(const SweepTable& table) {
    std::vector<int> failed;
    for (const ElementRow& row : table.rows)
        if (row.standing.state == ElementState::failed)
            failed.push_back(row.element);
    std::sort(failed.begin(), failed.end());
    return failed;
}

std::string array_text(const std::vector<int>& elements) {
    std::string text;
    for (std::size_t from = 0; from < elements.size();) {
        std::size_t to = from;
        while (to + 1 < elements.size() && elements[to + 1] == elements[to] + 1)
            ++to;
        text += (text.empty() ? "" : ",") + std::to_string(elements[from]) +
                (to > from ? '-' + std::to_string(elements[to]) : "");
        from = to + 1;
    }
    return text;
}

}  // namespace autolaunch::launcher
