#include "restart_policy/restart_history.hpp"

#include "base/json_nesting.hpp"
#include "restart_policy/cause_policy.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr int kVersion = 1;
constexpr int kDeepest = 8;

std::optional<RestartAction> action_named(std::string_view name) {
    for (const auto action : {RestartAction::restart, RestartAction::requeue, RestartAction::stop})
        if (name_of(action) == name)
            return action;
    return std::nullopt;
}

PastEnd end_from(const Json& json) {
    PastEnd end;
    end.generation = json.at("generation").get<int>();
    end.at = system_clock::time_point(milliseconds(json.at("at_ms").get<std::int64_t>()));
    end.cause = cause_named(json.at("cause").get<std::string>()).value();
    if (json.contains("node"))
        end.node = json.at("node").get<std::string>();
    end.signature = json.at("error").get<std::string>();
    if (json.contains("step"))
        end.step = json.at("step").get<std::int64_t>();
    end.made_progress = json.at("made_progress").get<bool>();
    end.action = action_named(json.at("action").get<std::string>()).value();
    end.elsewhere = json.contains("elsewhere") && json.at("elsewhere").get<bool>();
    end.counted = json.at("counted").get<bool>();
    return end;
}

}  // namespace

std::string to_json(const RestartHistory& history) {
    Json json = {{"version", kVersion}, {"run_id", history.run_id}, {"ends", Json::array()}};
    for (const PastEnd& end : history.ends) {
        const auto at = std::chrono::duration_cast<milliseconds>(end.at.time_since_epoch());
        Json entry = {{"generation", end.generation},
                      {"at_ms", at.count()},
                      {"cause", name_of(end.cause)},
                      {"error", end.signature},
                      {"made_progress", end.made_progress},
                      {"action", name_of(end.action)},
                      {"counted", end.counted}};
        if (!end.node.empty())
            entry["node"] = end.node;
        if (end.elsewhere)
            entry["elsewhere"] = true;
        if (end.step)
            entry["step"] = *end.step;
        json["ends"].push_back(std::move(entry));
    }
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<RestartHistory> restart_history_from(std::string_view text) {
    if (!nests_at_most(text, kDeepest))
        return std::nullopt;
    try {
        const Json json = Json::parse(text);
        if (json.at("version").get<int>() != kVersion)
            return std::nullopt;
        RestartHistory history;
        history.run_id = json.at("run_id").get<std::string>();
        for (const Json& entry : json.at("ends"))
            history.ends.push_back(end_from(entry));
        return history;
    } catch (const Json::exception&) {
        return std::nullopt;
    } catch (const std::bad_optional_access&) {
        return std::nullopt;
    }
}

}  // namespace autolaunch::launcher
