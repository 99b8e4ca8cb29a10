#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "readings/sample.hpp"
#include "readings/sample_fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace autolaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;
using sample_fields::each;

constexpr int kDeepest = 4;
// More than a line of a node with 16 GPUs and kSampleRanks ranks has.
constexpr std::size_t kLongestLine = 256U << 10;
constexpr std::size_t kMostItems = 1024;

// Five digits tell what there is to see; more of them would be noise, and bytes.
double rounded(double value) {
    if (!std::isfinite(value) || value == 0)
        return 0;
    const double places = 4 - std::floor(std::log10(std::fabs(value)));
    const double scale = std::pow(10.0, std::fabs(places));  // exact, if it is no odd value
    if (!std::isfinite(scale))
        return value;
    return places >= 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

// A number without a fraction is written without one.
Json number(double value) {
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
bool take(const Json& json, double& value) {
    if (!json.is_number())
        return false;
    value = json.get<double>();
    return std::isfinite(value);
}
template <class Integer>
requires std::is_integral_v<Integer>
bool take(const Json& json, Integer& value) {
    if (json.is_number_unsigned()) {
        const auto given = json.get<std::uint64_t>();
        value = static_cast<Integer>(given);
        return std::in_range<Integer>(given);
    }
    if (!json.is_number_integer())
        return false;
    const auto given = json.get<std::int64_t>();
    value = static_cast<Integer>(given);
    return std::in_range<Integer>(given);
}
bool take(const Json& json, std::string& value) {
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
        for (const Json& item : *found) {
            Value given{};
            if (values.size() < kMostItems && take(item, given))
                values.push_back(std::move(given));
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

template <class Line>
std::string line_of(const Line& line) {
    return json_of(line).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string to_json_line(const NodeSample& sample) { return line_of(sample); }
std::string to_json_line(const SampleHeader& header) { return line_of(header); }

SampleLine parse_sample_line(std::string_view line) {
    line = trim(line);
    if (line.empty() || line.size() > kLongestLine || !nests_at_most(line, kDeepest))
        return {};
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object())
        return {};
    if (json.contains("format")) {
        SampleHeader header{.format = 0};
        take(json, header);
        return header.format == kSampleFormat ? SampleLine(std::move(header)) : SampleLine();
    }
    NodeSample sample;
    if (!json.contains("t") || !take(json, sample) || sample.time_ms <= 0)
        return {};
    return sample;
}

std::string sample_file_name(std::string_view node) {
    std::string name;
    for (const char c : node) {
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
        name += is_plain && !(c == '.' && name.empty()) ? c : '_';
    }
    constexpr std::size_t kLongestName = 200;
    return (name.empty() ? "_" : name.substr(0, kLongestName)) + ".jsonl";
}

}  // namespace autolaunch::launcher
