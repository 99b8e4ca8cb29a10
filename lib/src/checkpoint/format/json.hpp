#pragma once
#include <autolaunch/error.hpp>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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

/// Looks through JSON for what parse_strictly() refuses. The library's own callback, which could do
/// it while it parses, looks at all of an object's members whenever one of them ends.
class StrictJson final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit StrictJson(std::string what) : what_(std::move(what)) {}

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return enter(); }
    bool end_object() override { return leave(); }
    bool start_array(std::size_t) override { return enter(); }
    bool end_array() override { return leave(); }
    bool key(string_t& name) override {
        if (!names_.back().insert(name).second)
            throw Error(ErrorCode::corrupt, what_ + " has the name " + name + " twice");
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
        return false;
    }

private:
    bool enter() {
        constexpr std::size_t kMaxDepth = 16;
        names_.emplace_back();
        if (names_.size() > kMaxDepth)
            throw Error(ErrorCode::corrupt, what_ + " is nested too deeply");
        return true;
    }
    bool leave() {
        names_.pop_back();
        return true;
    }

    std::string what_;
    std::vector<std::set<std::string>> names_;  // of what is open; none of arrays
};

/// JSON that somebody else may have written: a name that comes twice in an object and nesting that
/// nobody needs are refused, for readers would disagree about them. Error{corrupt} with `what` it
/// was found in.
inline nlohmann::json parse_strictly(std::string_view text, const std::string& what) {
    StrictJson strict(what);
    nlohmann::json parsed;
    if (nlohmann::json::sax_parse(text, &strict))
        parsed = nlohmann::json::parse(text, nullptr, false);
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
