#pragma once
#include "base/json_nesting.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
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

/// Builds a value from JSON that somebody else may have written, and stops at what
/// parse_strictly() refuses. The library's own callback, which could do it while it parses, looks
/// at all of an object's members whenever one of them ends.
class StrictJson final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit StrictJson(std::string what) : what_(std::move(what)) {}

    /// What was read; of a text that is no JSON, a part.
    nlohmann::json take() { return std::move(root_); }

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, const string_t&) override { return put(value); }
    bool string(string_t& value) override { return put(std::move(value)); }
    bool binary(binary_t&) override { return false; }  // no text has it
    bool start_object(std::size_t) override { return enter(nlohmann::json::value_t::object); }
    bool end_object() override { return leave(); }
    bool start_array(std::size_t) override { return enter(nlohmann::json::value_t::array); }
    bool end_array() override { return leave(); }
    bool key(string_t& name) override {
        const auto [member, is_new] =
            open_.back()->get_ref<nlohmann::json::object_t&>().emplace(name, nullptr);
        if (!is_new)
            throw Error(ErrorCode::corrupt, what_ + " has the name " + name + " twice");
        member_ = &member->second;
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
        return false;
    }

private:
    nlohmann::json& place(nlohmann::json value) {
        if (open_.empty())
            return root_ = std::move(value);
        if (open_.back()->is_object())
            return *member_ = std::move(value);
        auto& items = open_.back()->get_ref<nlohmann::json::array_t&>();
        items.push_back(std::move(value));
        return items.back();
    }
    bool put(nlohmann::json value) {
        place(std::move(value));
        return true;
    }
    bool enter(nlohmann::json::value_t type) {
        constexpr std::size_t kMaxDepth = 16;
        if (open_.size() == kMaxDepth)
            throw Error(ErrorCode::corrupt, what_ + " is nested too deeply");
        open_.push_back(&place(type));
        return true;
    }
    bool leave() {
        open_.pop_back();
        return true;
    }

    std::string what_;
    nlohmann::json root_;
    // The last of an array, or what a name was given for: nothing beside it moves until it ends.
    std::vector<nlohmann::json*> open_;
    nlohmann::json* member_ = nullptr;  // of the innermost object
};

/// JSON that somebody else may have written: a name that comes twice in an object and nesting that
/// nobody needs are refused, for readers would disagree about them. Error{corrupt} with `what` it
/// was found in.
inline nlohmann::json parse_strictly(std::string_view text, const std::string& what) {
    StrictJson strict(what);
    nlohmann::json parsed;
    if (nlohmann::json::sax_parse(text, &strict))
        parsed = strict.take();
    if (!parsed.is_object())
        throw Error(ErrorCode::corrupt, what + " is not a JSON object");
    return parsed;
}

/// What another rank of the job has said. No stranger wrote it, but it comes over a wire.
inline nlohmann::json parse_of_rank(std::string_view text) {
    constexpr int kDeepest = 16;
    if (!nests_at_most(text, kDeepest))
        throw Error(ErrorCode::corrupt, "what another rank said is nested too deeply");
    return nlohmann::json::parse(text);
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
