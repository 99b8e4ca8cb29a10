#include "base/whole_number.hpp"
#include "ledger/ledger.hpp"

#include "base/json_nesting.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kLedgerFormat = 1;
constexpr int kDeepestLedger = 2;
constexpr std::int64_t kMostMs = std::int64_t{1} << 60;  // what nobody has spent; sums stay whole

Json unit_times(const Ledger& ledger) {
    Json times = Json::object();
    for (std::size_t kind = 0; kind < kLedgerKinds; ++kind)
        times[ledger_key(static_cast<LedgerKind>(kind))] = ledger.unit_ms.at(kind);
    return times;
}

std::int64_t time_in(const Json& json, const char* key) {
    const auto ms = whole_number<std::int64_t>(json.at(key));
    return ms >= 0 && ms < kMostMs ? ms : throw Json::out_of_range::create(401, key, &json);
}

}  // namespace

std::string ledger_json(const Ledger& ledger) {
    Json json = {{"format", kLedgerFormat},
                 {"unit", ledger.unit},
                 {"units", ledger.units},
                 {"wall_ms", ledger.wall_ms},
                 {"running_ms", ledger.running_ms},
                 {"unit_ms", unit_times(ledger)},
                 {"total_unit_ms", total_ms(ledger)},
                 {"goodput", goodput(ledger)},
                 {"share_used", share_used(ledger)}};
    const auto between = mean_time_to_failure(ledger);
    json["mean_time_to_failure_ms"] = between ? Json(between->count()) : Json();
    json["attempts"] = ledger.attempts;
    json["generations"] = ledger.generations;
    json["failures"] = ledger.failures;
    json["steps_reported"] = ledger.steps_reported;
    json["completed"] = ledger.completed ? Json(*ledger.completed) : Json();
    json["without_person"] = ledger.without_person;
    json["gaps"] = ledger.gaps;
    json["run_id"] = ledger.run_id;
    json["requeue"] = ledger.requeue ? Json(*ledger.requeue) : Json();
    json["ended_ms"] = ledger.ended_at ? Json(ledger.ended_at->time_since_epoch().count()) : Json();
    json["next_generation"] = ledger.next_generation;
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<Ledger> parse_ledger(std::string_view text) try {
    if (!nests_at_most(text, kDeepestLedger))
        return std::nullopt;
    const Json json = Json::parse(text);
    if (whole_number<int>(json.at("format")) != kLedgerFormat)
        return std::nullopt;
    Ledger ledger;
    ledger.unit = json.at("unit").get<std::string>() == "gpu" ? "gpu" : "rank";
    ledger.units = whole_number<int>(json.at("units"));
    ledger.wall_ms = time_in(json, "wall_ms");
    ledger.running_ms = time_in(json, "running_ms");
    for (std::size_t kind = 0; kind < kLedgerKinds; ++kind)
        ledger.unit_ms.at(kind) =
            time_in(json.at("unit_ms"), ledger_key(static_cast<LedgerKind>(kind)));
    ledger.attempts = whole_number<int>(json.at("attempts"));
    ledger.generations = whole_number<int>(json.at("generations"));
    ledger.failures = whole_number<int>(json.at("failures"));
    ledger.steps_reported = json.at("steps_reported").get<bool>();
    if (!json.at("completed").is_null())
        ledger.completed = json.at("completed").get<bool>();
    ledger.without_person = json.at("without_person").get<bool>();
    ledger.gaps = json.at("gaps").get<std::vector<std::string>>();
    ledger.run_id = json.at("run_id").get<std::string>();
    if (!json.at("requeue").is_null())
        ledger.requeue = whole_number<int>(json.at("requeue"));
    if (!json.at("ended_ms").is_null())
        ledger.ended_at = std::chrono::sys_time<std::chrono::milliseconds>(
            std::chrono::milliseconds(time_in(json, "ended_ms")));
    ledger.next_generation = whole_number<int>(json.at("next_generation"));
    const bool counts = ledger.units >= 0 && ledger.attempts >= 0 && ledger.generations >= 0 &&
                        ledger.failures >= 0 && ledger.next_generation >= 0;
    return counts ? std::optional(std::move(ledger)) : std::nullopt;
} catch (const nlohmann::json::exception&) {
    return std::nullopt;
}

}  // namespace autolaunch::launcher
