#pragma once
#include <autolaunch/error.hpp>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

/// Strict reading of JSON that may be damaged: every surprise is Error{corrupt} with `what` it was
/// found in.
class JsonReader {
public:
    JsonReader(const nlohmann::json& value, std::string what)
        : value_(value), what_(std::move(what)) {}

    const nlohmann::json& raw() const noexcept { return value_; }

    JsonReader field(const char* key) const {
        if (!value_.is_object() || !value_.contains(key))
            fail("has no \"" + std::string(key) + "\"");
        return JsonReader(value_[key], what_ + "." + key);
    }
    JsonReader item(std::size_t index) const {
        if (!value_.is_array() || index >= value_.size())
            fail("has no item " + std::to_string(index));
        return JsonReader(value_[index], what_ + "[" + std::to_string(index) + "]");
    }
    std::size_t array_size() const {
        if (!value_.is_array())
            fail("is not an array");
        return value_.size();
    }
    /// A whole number from 0 to `limit`.
    std::int64_t count(std::int64_t limit = INT64_MAX) const {
        if (!value_.is_number_unsigned() ||
            value_.get<std::uint64_t>() > static_cast<std::uint64_t>(limit))
            fail("is not a whole number from 0 to " + std::to_string(limit));
        return value_.get<std::int64_t>();
    }
    double number() const {
        if (!value_.is_number())
            fail("is not a number");
        return value_.get<double>();
    }
    std::string text() const {
        if (!value_.is_string())
            fail("is not a string");
        return value_.get<std::string>();
    }
    [[noreturn]] void fail(const std::string& problem) const {
        throw Error(ErrorCode::corrupt, what_ + " " + problem);
    }

private:
    const nlohmann::json& value_;
    std::string what_;
};

/// JSON that somebody else may have written: a name that comes twice in an object and nesting that
/// nobody needs are refused, for readers would disagree about them. Error{corrupt} with `what` it
/// was found in.
inline nlohmann::json parse_strictly(std::string_view text, const std::string& what) {
    constexpr int kMaxDepth = 16;
    using Event = nlohmann::json::parse_event_t;
    std::vector<std::set<std::string>> names;  // of the objects that are open
    const auto check = [&](int depth, Event event, nlohmann::json& value) {
        if (depth > kMaxDepth)
            throw Error(ErrorCode::corrupt, what + " is nested too deeply");
        if (event == Event::object_start)
            names.emplace_back();
        if (event == Event::object_end)
            names.pop_back();
        if (event == Event::key && !names.back().insert(value.get<std::string>()).second)
            throw Error(ErrorCode::corrupt,
                        what + " has the name " + value.get<std::string>() + " twice");
        return true;
    };
    nlohmann::json parsed = nlohmann::json::parse(text, check, false);
    if (!parsed.is_object())
        throw Error(ErrorCode::corrupt, what + " is not a JSON object");
    return parsed;
}

/// Names need not be UTF-8 in memory, but must be in a file.
inline std::string json_text(const nlohmann::json& value) {
    try {
        return value.dump();
    } catch (const nlohmann::json::exception&) {
        throw Error(ErrorCode::invalid_argument, "a name or text for the checkpoint is not UTF-8");
    }
}

}  // namespace autolaunch
