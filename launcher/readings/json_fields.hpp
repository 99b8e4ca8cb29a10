#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include "base/whole_number.hpp"

/// JSON of plain structures that have an each(sample, visit) in their own
/// namespace: one table of keys for both directions.
namespace autolaunch::launcher::json_fields {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMostItems = 4096;

// Five digits tell what there is to see; more of them would be noise, and bytes.
inline double rounded(double value) {
    if (!std::isfinite(value) || value == 0)
        return 0;
    const double places = 4 - std::floor(std::log10(std::fabs(value)));
    const double scale = std::pow(10.0, std::fabs(places));  // exact, if it is no odd value
    if (!std::isfinite(scale))
        return value;
    return places >= 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

// A number without a fraction is written without one.
inline Json number(double value) {
    const double shown = rounded(value);
    constexpr double kExact = 9007199254740992;  // 2^53
    if (shown == std::floor(shown) && std::fabs(shown) < kExact)
        return static_cast<std::int64_t>(shown);
    return shown;
}

template <class Value>
Json json_of(const Value& value);

struct Write {
    Json& into;

    template <class Value>
    void operator()(const char* key, const std::optional<Value>& value) const {
        if (!value)
            return;
        if constexpr (std::is_same_v<Value, double>) {
            if (!std::isfinite(*value))
                return;
        }
        into[key] = json_of(*value);
    }
    template <class Value>
    void operator()(const char* key, const std::vector<Value>& values) const {
        if (values.empty())
            return;
        Json& list = into[key] = Json::array();
        for (const Value& value : values)
            list.push_back(json_of(value));
    }
    template <class Value>
    void operator()(const char* key, const std::map<std::string, Value>& values) const {
        for (const auto& [name, value] : values)
            into[key][name] = json_of(value);
    }
    template <class Value>
    void operator()(const char* key, const Value& value) const {
        Json json = json_of(value);
        const bool says_nothing = json.is_object() && json.empty();
        const bool is_usual = json == 0 && std::string_view(key) == "ranks_left_out";
        if (!says_nothing && !is_usual)
            into[key] = std::move(json);
    }
};

template <class Value>
Json json_of(const Value& value) {
    if constexpr (std::is_same_v<Value, double>) {
        return number(value);
    } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
        return value;
    } else {
        Json json = Json::object();
        each(value, Write{json});
        return json;
    }
}

// Somebody may have written the line by hand, or to harm: a value of another kind is none.
inline bool take(const Json& json, double& value) {
    if (!json.is_number())
        return false;
    value = json.get<double>();
    return std::isfinite(value);
}
inline bool take(const Json& json, bool& value) {
    if (!json.is_boolean())
        return false;
    value = json.get<bool>();
    return true;
}
template <class T>
concept WholeNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <WholeNumber Integer>
bool take(const Json& json, Integer& value) {
    if (json.is_number_unsigned()) {
        const auto given = whole_number<std::uint64_t>(json);
        value = static_cast<Integer>(given);
        return std::in_range<Integer>(given);
    }
    if (!json.is_number_integer())
        return false;
    const auto given = whole_number<std::int64_t>(json);
    value = static_cast<Integer>(given);
    return std::in_range<Integer>(given);
}
inline bool take(const Json& json, std::string& value) {
    if (!json.is_string())
        return false;
    value = json.get<std::string>();
    return true;
}
template <class Sample>
requires std::is_class_v<Sample>
bool take(const Json& json, Sample& sample);

struct Read {
    const Json& from;

    template <class Value>
    void operator()(const char* key, std::optional<Value>& value) const {
        Value given{};
        const auto found = from.find(key);
        if (found != from.end() && take(*found, given))
            value = std::move(given);
    }
    template <class Value>
    void operator()(const char* key, std::vector<Value>& values) const {
        const auto found = from.find(key);
        if (found == from.end() || !found->is_array())
            return;
        values.clear();
        for (const Json& item : *found) {
            Value given{};
            if (values.size() < kMostItems && take(item, given))
                values.push_back(std::move(given));
        }
    }
    template <class Value>
    void operator()(const char* key, std::map<std::string, Value>& values) const {
        const auto found = from.find(key);
        if (found == from.end() || !found->is_object())
            return;
        for (const auto& [name, item] : found->items()) {
            Value given{};
            if (values.size() < kMostItems && take(item, given))
                values.emplace(name, std::move(given));
        }
    }
    template <class Value>
    void operator()(const char* key, Value& value) const {
        Value given{};
        const auto found = from.find(key);
        if (found != from.end() && take(*found, given))
            value = std::move(given);
    }
};

template <class Sample>
requires std::is_class_v<Sample>
bool take(const Json& json, Sample& sample) {
    if (!json.is_object())
        return false;
    each(sample, Read{json});
    return true;
}

}  // namespace autolaunch::launcher::json_fields
