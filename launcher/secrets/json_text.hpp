#pragma once
#include "secrets/secrets.hpp"

#include <nlohmann/json_fwd.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// JSON as nlohmann::ordered_json writes it with dump(2), and with secrets masked in every value
/// that is a text. For what is large and written at each launch: a tree of values takes three times
/// as long to make, to copy and to free as its text.
class JsonText {
public:
    JsonText(Secrets secrets, std::span<const std::string> known)
        : secrets_(secrets), known_(known) {}

    /// `write_members` calls member().
    void object(const std::invocable auto& write_members) {
        begin('{');
        write_members();
        end('}');
    }
    /// `write(element)` writes a value for each.
    template <class T>
    void array(const std::vector<T>& elements, const std::invocable<const T&> auto& write) {
        begin('[');
        for (const T& element : elements) {
            next();
            write(element);
        }
        end(']');
    }
    void member(std::string_view key, const auto& value) {
        next();
        append_quoted(key);
        text_ += ": ";
        put(value);
    }
    void object(std::string_view key, const std::invocable auto& write_members) {
        member(key, [&] { object(write_members); });
    }

    void put(std::string_view text);
    void put(const std::string& text) { put(std::string_view(text)); }
    void put(const char* text) { put(std::string_view(text)); }
    void put(bool value) { text_ += value ? "true" : "false"; }
    void put(std::integral auto number) { text_ += std::to_string(number); }
    void put(std::nullptr_t) { text_ += "null"; }
    /// What is small, and has values of other kinds.
    void put_tree(nlohmann::ordered_json tree);
    void put(const std::invocable auto& write) { write(); }
    template <class T>
    void put(const std::optional<T>& value) {
        if (value)
            put(*value);
        else
            put(nullptr);
    }
    template <class T>
    void put(const std::vector<T>& elements) {
        array(elements, [this](const T& element) { put(element); });
    }

    const std::string& text() const { return text_; }

private:
    void begin(char bracket);
    void end(char bracket);
    void next();
    void append_quoted(std::string_view text);

    Secrets secrets_;
    std::span<const std::string> known_;
    std::string text_;
    std::string safe_;  // of one value
    std::size_t depth_ = 0;
    bool empty_ = true;  // the innermost object or array, so far
};

}  // namespace autolaunch::launcher
