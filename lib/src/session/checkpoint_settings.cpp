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

constexpr int kDepth = 3;  // of a tier in the list
constexpr std::size_t kMostTiers = 16;

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
template <class Tier, class Visit>
requires std::is_same_v<std::remove_const_t<Tier>, TierSettings>
void for_each_member(Tier& tier, const Visit& visit) {
    visit("place", tier.place);
    visit("every_steps", tier.every_steps);
    visit("every_seconds", tier.every_seconds);
    visit("keep", tier.keep);
    visit("keep_best", tier.keep_best);
    visit("keep_every", tier.keep_every);
    visit("bytes_per_second", tier.bytes_per_second);
}

template <class Settings, class Visit>
requires std::is_same_v<std::remove_const_t<Settings>, CheckpointSettings>
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
    visit("tiers", settings.tiers);
    visit("drain_wait_seconds", settings.drain_wait_seconds);
    visit("stripe_auto", settings.stripe_auto);
    visit("stripe_count", settings.stripe_count);
    visit("stripe_bytes", settings.stripe_bytes);
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
    void operator()(const char* name, const std::vector<TierSettings>& tiers) const {
        for (const TierSettings& tier : tiers) {
            json one = json::object();
            for_each_member(tier, MemberWriter{one});
            object[name].push_back(std::move(one));
        }
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
    void operator()(const char* name, std::vector<TierSettings>& tiers) const {
        if (!object.contains(name))
            return;
        for (const json& one : object.at(name).get_ref<const json::array_t&>()) {
            static_cast<void>(one.get_ref<const json::object_t&>());  // or it throws
            for_each_member(tiers.emplace_back(), MemberReader{one});
        }
    }
};

}  // namespace

std::string to_text(const CheckpointSettings& settings) {
    json object = json::object();
    for_each_member(settings, MemberWriter{object});
    return object.empty() ? "" : object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<TierSettings> tiers_of(const CheckpointSettings& settings) {
    std::vector<TierSettings> tiers = settings.tiers;
    if (tiers.empty() && !settings.drain.empty())
        tiers.push_back({.place = settings.drain, .keep = settings.drain_keep});
    for (TierSettings& tier : tiers) {
        if (!tier.keep_every)
            tier.keep_every = settings.keep_every;
        if (!tier.keep_best)
            tier.keep_best = settings.keep_best;
    }
    return tiers;
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
        if (settings.tiers.size() > kMostTiers)
            throw wrong("it has more than 16 tiers");
    } catch (const json::exception& error) {
        throw wrong(error.what());
    }
    return settings;
}

}  // namespace autolaunch
