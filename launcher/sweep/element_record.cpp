#include "sweep/element_record.hpp"

#include "base/file_system.hpp"
#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;  // one more is another number
constexpr std::string_view kPrefix = "element-", kSuffix = ".json";

/// JSON has no NaN; a loss that is none comes back as one.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double number_of(const Json& json, const char* key) {
    const Json& value = json.at(key);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json json_of(const SweepLook& look) {
    return {{"mark", look.mark},
            {"step", look.step},
            {"value", number(look.value)},
            {"mean", number(look.mean)},
            {"best", number(look.best)}};
}

Json json_of(const MetricHistory& history) {
    Json json = {{"step", history.newest_step},  {"last", number(history.last)},
                 {"best", number(history.best)}, {"best_step", history.best_step},
                 {"mean", number(history.mean)}, {"count", history.count}};
    json["looks"] = Json::array();
    for (const SweepLook& look : history.looks)
        json["looks"].push_back(json_of(look));
    return json;
}

MetricHistory history_of(const Json& json) {
    MetricHistory history;
    history.newest_step = whole_number<std::int64_t>(json.at("step"));
    history.last = number_of(json, "last");
    history.best = number_of(json, "best");
    history.best_step = whole_number<std::int64_t>(json.at("best_step"));
    history.mean = number_of(json, "mean");
    history.count =
        std::clamp<std::int64_t>(whole_number<std::int64_t>(json.at("count")), 0, kMostSteps);
    for (const Json& look : json.at("looks"))
        history.looks.push_back({whole_number<std::int64_t>(look.at("mark")),
                                 whole_number<std::int64_t>(look.at("step")),
                                 number_of(look, "value"), number_of(look, "mean"),
                                 number_of(look, "best")});
    return history;
}

/// Of "element-7.json" 7.
std::optional<int> element_in(std::string_view name) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix))
        return std::nullopt;
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(kSuffix.size());
    long long number = 0;
    const bool digits =
        !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    return digits && parse_integer(name, number) && number <= std::numeric_limits<int>::max()
               ? std::optional(static_cast<int>(number))
               : std::nullopt;
}

}  // namespace

std::string element_record_file(int element) {
    return fmt::format("{}{}{}", kPrefix, element, kSuffix);
}

std::string element_record_text(const ElementRecord& record) {
    Json json = {{"format", 1},
                 {"element", record.element},
                 {"run_dir", record.run_dir},
                 {"array_job", record.array_job},
                 {"updated", record.updated},
                 {"ended", record.ended},
                 {"outcome", record.outcome},
                 {"stopped_early", record.stopped_early},
                 {"metric", record.metric}};
    if (record.exit_code)
        json["exit_code"] = *record.exit_code;
    if (record.total_steps)
        json["total_steps"] = *record.total_steps;
    json["history"] = json_of(record.history);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<ElementRecord> parse_element_record(const std::string& text) {
    constexpr int kMostNesting = 8;
    if (!nests_at_most(text, kMostNesting))
        return std::nullopt;
    try {
        const Json json = Json::parse(text);
        ElementRecord record;
        record.element = whole_number<int>(json.at("element"));
        record.run_dir = json.at("run_dir").get<std::string>();
        record.array_job = json.at("array_job").get<std::string>();
        record.updated = json.at("updated").get<std::string>();
        record.ended = json.at("ended").get<bool>();
        record.outcome = json.at("outcome").get<std::string>();
        record.stopped_early = json.at("stopped_early").get<std::string>();
        record.metric = json.at("metric").get<std::string>();
        if (json.contains("exit_code"))
            record.exit_code = whole_number<int>(json.at("exit_code"));
        if (json.contains("total_steps"))
            record.total_steps = whole_number<std::int64_t>(json.at("total_steps"));
        record.history = history_of(json.at("history"));
        return record;
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
}

std::map<int, ElementRecord> read_element_records(const std::filesystem::path& folder,
                                                  std::vector<std::string>& unreadable) {
    std::map<int, ElementRecord> records;
    const OwnedFolder files = OwnedFolder::open(folder);
    for (const auto& path : list_folder(folder)) {
        const std::string name = path.filename().string();
        const auto number = element_in(name);
        if (!number)
            continue;
        try {
            auto record = parse_element_record(files.read(name, kMostRecordBytes).value_or(""));
            if (record && record->element == *number)
                records[*number] = std::move(*record);
            else
                unreadable.push_back(name + " is no element's record");
        } catch (const Error& error) {
            unreadable.push_back(error.what());
        }
    }
    return records;
}

}  // namespace autolaunch::launcher
