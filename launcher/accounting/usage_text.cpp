#include "accounting/usage_text.hpp"

#include "report/units.hpp"
#include "run_report/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kUsageFormat = 1;

const char* name_of(UsageBy by) { return by == UsageBy::user ? "user" : "account"; }

std::string number(const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string();
}

std::pair<int, int> sum_of(const std::map<std::string, Recovery>& recovery) {
    std::pair<int, int> sum;
    for (const auto& [cause, one] : recovery) {
        sum.first += one.failures;
        sum.second += one.recovered;
    }
    return sum;
}

/// "node_lost 3/3; out_of_memory 0/1": recovered of failures.
std::string by_cause(const UsageRow& row) {
    std::string text;
    for (const auto& [cause, recovery] : row.recovery)
        text += fmt::format("{}{} {}/{}", text.empty() ? "" : "; ", cause, recovery.recovered,
                            recovery.failures);
    return text;
}

std::string quoted(const std::string& cell) {
    if (cell.find_first_of(",\"\r\n") == cell.npos)
        return cell;
    std::string text = "\"";
    for (const char c : cell)
        text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return text + '"';
}

std::string percent(const std::optional<double>& share) {
    return share ? fmt::format("{:.0f}%", *share * 100) : "-";
}

std::string waited(const std::optional<double>& seconds) {
    if (!seconds)
        return "-";
    return *seconds < 1 ? "0 s"
                        : format_duration(std::chrono::milliseconds(std::llround(*seconds * 1000)));
}

using Cells = std::vector<std::string>;

std::string aligned(const std::vector<Cells>& rows) {
    std::vector<std::size_t> widths;
    for (const Cells& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t at = 0; at < row.size(); ++at)
            widths[at] = std::max(widths[at], row[at].size());
    }
    std::string text;
    for (const Cells& row : rows) {
        std::string line;
        for (std::size_t at = 0; at < row.size(); ++at)
            line += at == 0 || at + 1 == row.size() ? fmt::format("{:<{}}  ", row[at], widths[at])
                                                    : fmt::format("{:>{}}  ", row[at], widths[at]);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

}  // namespace

std::string usage_table(const Usage& usage, const UsageRequest& request) {
    std::vector<Cells> rows{{name_of(request.by), "jobs", "completed", "GPU hours", "used",
                             "wait (median)", "(longest)", "cost", "recovered, by cause"}};
    for (const UsageRow& row : usage.rows)
        rows.push_back({row.name, std::to_string(row.jobs),
                        row.ended > 0 ? fmt::format("{}/{} {}", row.completed, row.ended,
                                                    percent(row.completion()))
                                      : "-",
                        row.gpu_hours ? number(row.gpu_hours, 1) : "-", percent(row.gpu_used()),
                        waited(row.wait_median), waited(row.wait_longest),
                        row.cost ? number(row.cost, 2) : "-",
                        row.with_record == 0   ? "-"
                        : row.recovery.empty() ? "nothing failed"
                                               : by_cause(row)});
    std::string text = fmt::format("since {} UTC, by {}\n\n",
                                   format_moment(RecordTime(request.since)), name_of(request.by)) +
                       aligned(rows);
    for (const std::string& note : usage.notes)
        text += "\nnot known: " + note + '\n';
    return text;
}

std::string usage_csv(const Usage& usage, const UsageRequest& request) {
    std::string text =
        std::string(name_of(request.by)) +
        ",jobs,ended,completed,completion,jobs_with_run_directory,failures,recovered,"
        "recovered_by_cause,gpu_hours,gpu_hours_measured,gpu_used,queue_wait_median_s,"
        "queue_wait_longest_s,cost\n";
    for (const UsageRow& row : usage.rows) {
        const bool has_record = row.with_record > 0;
        const auto [failures, recovered] = sum_of(row.recovery);
        text += quoted(row.name) + ',' +
                fmt::format("{},{},{},{},{},{},{},{},", row.jobs, row.ended, row.completed,
                            number(row.completion(), 4), row.with_record,
                            has_record ? std::to_string(failures) : "",
                            has_record ? std::to_string(recovered) : "", quoted(by_cause(row))) +
                fmt::format("{},{},{},{},{},{}\n", number(row.gpu_hours, 4),
                            row.gpu_used() ? number(row.gpu_seconds_known / 3600, 4) : "",
                            number(row.gpu_used(), 4), number(row.wait_median, 0),
                            number(row.wait_longest, 0), number(row.cost, 2));
    }
    return text;
}

std::string usage_json(const Usage& usage, const UsageRequest& request) {
    const auto or_null = [](const std::optional<double>& value) {
        return value ? Json(std::round(*value * 1e4) / 1e4) : Json();
    };
    Json json = {{"format", kUsageFormat},
                 {"since", request.since.time_since_epoch().count()},
                 {"until", request.now.time_since_epoch().count()},
                 {"by", name_of(request.by)},
                 {"rows", Json::array()},
                 {"notes", usage.notes}};
    for (const UsageRow& row : usage.rows) {
        Json recovery = Json();
        if (row.with_record > 0) {
            recovery = Json::object();
            for (const auto& [cause, one] : row.recovery)
                recovery[cause] = {{"failures", one.failures}, {"recovered", one.recovered}};
        }
        json["rows"].push_back({{"name", row.name},
                                {"jobs", row.jobs},
                                {"ended", row.ended},
                                {"completed", row.completed},
                                {"completion", or_null(row.completion())},
                                {"jobs_with_run_directory", row.with_record},
                                {"recovery", recovery},
                                {"gpu_hours", or_null(row.gpu_hours)},
                                {"gpu_hours_measured",
                                 row.gpu_used() ? or_null(row.gpu_seconds_known / 3600) : Json()},
                                {"gpu_used", or_null(row.gpu_used())},
                                {"queue_wait_median_seconds", or_null(row.wait_median)},
                                {"queue_wait_longest_seconds", or_null(row.wait_longest)},
                                {"cost", or_null(row.cost)}});
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
