#include "restart_policy/restart_history.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"
#include "restart_policy/cause_policy.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::system_clock;
using Moment = system_clock::time_point;

constexpr int kVersion = 1;
constexpr int kDeepest = 8;

std::optional<RestartAction> action_named(std::string_view name) {
    for (const auto action : {RestartAction::restart, RestartAction::requeue, RestartAction::stop})
        if (name_of(action) == name)
            return action;
    return std::nullopt;
}

std::int64_t ms_of(Moment at) {
    return std::chrono::duration_cast<milliseconds>(at.time_since_epoch()).count();
}

// A file that says more than the clock can hold is damaged.
Moment moment_from(const Json& json) {
    constexpr auto kLast =
        std::chrono::duration_cast<milliseconds>(Moment::max().time_since_epoch());
    const Json& number = json.at("at_ms");
    const auto at = number.is_number_integer() ? whole_number<std::int64_t>(number) : -1;
    if (at < 0 || at > kLast.count())
        throw Error(ErrorCode::corrupt, "a moment out of range");
    return Moment(milliseconds(at));
}

Json to_json(const std::vector<NodeWord>& words) {
    Json list = Json::array();
    for (const NodeWord& word : words) {
        Json entry = {{"node", word.node}, {"at_ms", ms_of(word.at)}};
        if (!word.why.empty())
            entry["why"] = word.why;
        list.push_back(std::move(entry));
    }
    return list;
}

std::vector<NodeWord> words_from(const Json& json, const char* name) {
    std::vector<NodeWord> words;
    if (json.contains(name))
        for (const Json& entry : json.at(name))
            words.push_back({.node = entry.at("node").get<std::string>(),
                             .why = entry.value("why", std::string()),
                             .at = moment_from(entry)});
    return words;
}

PastEnd end_from(const Json& json) {
    PastEnd end;
    end.generation = whole_number<int>(json.at("generation"));
    end.at = moment_from(json);
    end.cause = cause_named(json.at("cause").get<std::string>()).value();
    if (json.contains("node"))
        end.node = json.at("node").get<std::string>();
    end.signature = json.at("error").get<std::string>();
    if (json.contains("step"))
        end.step = whole_number<std::int64_t>(json.at("step"));
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
        Json entry = {{"generation", end.generation},
                      {"at_ms", ms_of(end.at)},
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
    if (!history.unfit.empty())
        json["unfit"] = to_json(history.unfit);
    if (!history.lost.empty())
        json["lost"] = to_json(history.lost);
    if (!history.taken_back.empty())
        json["taken_back"] = to_json(history.taken_back);
    if (history.checkpoint_step)
        json["checkpoint_step"] = *history.checkpoint_step;
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<RestartHistory> restart_history_from(std::string_view text) {
    if (!nests_at_most(text, kDeepest))
        return std::nullopt;
    try {
        const Json json = Json::parse(text);
        if (whole_number<int>(json.at("version")) != kVersion)
            return std::nullopt;
        RestartHistory history;
        history.run_id = json.at("run_id").get<std::string>();
        for (const Json& entry : json.at("ends"))
            history.ends.push_back(end_from(entry));
        history.unfit = words_from(json, "unfit");
        history.lost = words_from(json, "lost");
        history.taken_back = words_from(json, "taken_back");
        if (json.contains("checkpoint_step"))
            history.checkpoint_step = whole_number<std::int64_t>(json.at("checkpoint_step"));
        return history;
    } catch (const Json::exception&) {
        return std::nullopt;
    } catch (const std::bad_optional_access&) {
        return std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace autolaunch::launcher
