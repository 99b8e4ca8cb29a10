#include "session/checkpoint_settings.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"
#include "session/environment.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <type_traits>

namespace autolaunch {

namespace {

using nlohmann::json;

constexpr int kDepth = 1;

template <class Number>
void take_number(const json& value, std::optional<Number>& into) {
    if constexpr (std::is_integral_v<Number>)
        into = whole_number<Number>(value);
    else if (const double seconds = value.get<double>(); std::isfinite(seconds) && seconds >= 0)
        into = seconds;
    else
        into = json("no number of seconds").get<double>();  // nlohmann's own exception
}

/// Gives `visit` each member with its name, for both directions.
template <class Settings, class Visit>
void for_each_member(Settings& settings, const Visit& visit) {
    visit("directory", settings.directory);
    visit("keep", settings.keep);
    visit("keep_best", settings.keep_best);
    visit("keep_every", settings.keep_every);
    visit("lower_is_better", settings.lower_is_better);
    visit("node_local", settings.node_local);
    visit("pass_over_unusable", settings.pass_over_unusable);
    visit("every_steps", settings.every_steps);
    visit("every_seconds", settings.every_seconds);
    visit("optimal", settings.optimal);
    visit("drain", settings.drain);
    visit("drain_keep", settings.drain_keep);
    visit("drain_wait_seconds", settings.drain_wait_seconds);
    visit("restore_from", settings.restore_from);
}

struct MemberWriter {
    json& object;
    void operator()(const char* name, const std::string& value) const {
        if (!value.empty())
            object[name] = value;
    }
    template <class Value>
    void operator()(const char* name, const std::optional<Value>& value) const {
        if (value)
            object[name] = *value;
    }
};

struct MemberReader {
    const json& object;
    void operator()(const char* name, std::string& value) const {
        if (object.contains(name))
            value = object.at(name).get<std::string>();
    }
    void operator()(const char* name, std::optional<bool>& value) const {
        if (object.contains(name))
            value = object.at(name).get<bool>();
    }
    template <class Number>
    void operator()(const char* name, std::optional<Number>& value) const {
        if (object.contains(name))
            take_number(object.at(name), value);
    }
};

}  // namespace

std::string to_text(const CheckpointSettings& settings) {
    json object = json::object();
    for_each_member(settings, MemberWriter{object});
    return object.empty() ? "" : object.dump(-1, ' ', false, json::error_handler_t::replace);
}

CheckpointSettings checkpoint_settings_from(std::string_view text) {
    CheckpointSettings settings;
    if (text.empty())
        return settings;
    const auto wrong = [](const std::string& why) {
        return Error(ErrorCode::invalid_argument,
                     std::string(env::kCheckpoint) + " is not as autolaunch sets it: " + why,
                     "unset it; the spec's section `checkpoint` sets it");
    };
    if (!nests_at_most(text, kDepth))
        throw wrong("it nests");
    try {
        const json object = json::parse(text);
        if (!object.is_object())
            throw wrong("it is no object");
        for_each_member(settings, MemberReader{object});
    } catch (const json::exception& error) {
        throw wrong(error.what());
    }
    return settings;
}

}  // namespace autolaunch
