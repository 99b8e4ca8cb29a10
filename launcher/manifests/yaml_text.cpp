#include "manifests/yaml_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Words that one version of YAML or the other reads as a boolean or as null.
bool is_typed_word(std::string text) {
    static constexpr std::array<std::string_view, 9> kWords = {"y",   "n",    "yes",   "no",  "on",
                                                               "off", "true", "false", "null"};
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

/// Text that needs no quotes anywhere.
bool is_bare_word(const std::string& text) {
    constexpr std::string_view kInside = "_./-";
    return !text.empty() && (is_letter(text[0]) || text[0] == '/') && !is_typed_word(text) &&
           std::all_of(text.begin(), text.end(), [&](char c) {
               return is_letter(c) || is_digit(c) || kInside.find(c) != std::string_view::npos;
           });
}

/// What was written without quotes and has a type by that: numbers, booleans, null.
bool may_stay_plain(const std::string& text) {
    constexpr std::string_view kInside = "_.+-~";
    return !text.empty() && text != "-" && !text.starts_with("--") &&
           std::all_of(text.begin(), text.end(), [&](char c) {
               return is_letter(c) || is_digit(c) || kInside.find(c) != std::string_view::npos;
           });
}

/// The character that begins at `text`, and its length; an odd byte is itself.
std::pair<char32_t, std::size_t> first_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t length = byte(0) < 0xC0 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
    if (length == 1 || length > text.size())
        return {byte(0), 1};
    char32_t character = byte(0) & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i)
        character = character << 6 | (byte(i) & 0x3FU);
    return {character, length};
}

/// ASCII, whatever is in it: no terminal, locale or version of YAML changes it.
std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const auto [character, length] = first_character(text);
        text.remove_prefix(length);
        const auto code = static_cast<std::uint32_t>(character);
        if (character == '"' || character == '\\')
            out.append(1, '\\').append(1, static_cast<char>(character));
        else if (character == '\n')
            out += "\\n";
        else if (code < 0x20 || (code >= 0x7f && code <= 0xff))
            out += fmt::format("\\x{:02x}", code);
        else if (code < 0x7f)
            out += static_cast<char>(character);
        else
            out += code > 0xffff ? fmt::format("\\U{:08x}", code) : fmt::format("\\u{:04x}", code);
    }
    return out + '"';
}

/// Lines that a block gives back as they are.
bool is_block(const std::string& text) {
    return text.size() > 1 && text.ends_with('\n') && !text.ends_with("\n\n") && text[0] != ' ' &&
           text[0] != '\n' && text.find('\n') + 1 < text.size() &&
           std::all_of(text.begin(), text.end(), [](char c) {
               const auto byte = static_cast<unsigned char>(c);
               return c == '\n' || (byte >= 0x20 && byte < 0x7f);
           });
}

bool is_open(const Value& value) { return !value.items.empty() || !value.entries.empty(); }

class YamlText {
public:
    std::string take() { return std::move(text_); }

    void entries(const Value& mapping, std::size_t depth) {
        for (std::size_t i = 0; i < mapping.entries.size(); ++i) {
            const Entry& entry = mapping.entries[i];
            indent(depth, i == 0);
            text_ += is_bare_word(entry.key) ? entry.key : in_quotes(entry.key);
            text_ += ':';
            behind_colon(entry.value, depth);
        }
    }

private:
    // Behind "- " the first line goes on where it is.
    void indent(std::size_t depth, bool first) {
        if (!std::exchange(behind_dash_, false) || !first)
            text_.append(2 * depth, ' ');
    }
    void behind_colon(const Value& value, std::size_t depth) {
        if (!is_open(value)) {
            text_ += ' ';
            return leaf(value, depth + 1);
        }
        text_ += value.tag.empty() ? "\n" : ' ' + value.tag + '\n';
        if (value.is_mapping())
            entries(value, depth + 1);
        else
            items(value, depth);
    }
    void items(const Value& list, std::size_t depth) {
        for (std::size_t i = 0; i < list.items.size(); ++i) {
            const Value& item = list.items[i];
            indent(depth, i == 0);
            text_ += "- ";
            if (!is_open(item)) {
                leaf(item, depth + 1);
            } else if (!item.tag.empty()) {
                text_ += item.tag + '\n';
                item.is_mapping() ? entries(item, depth + 1) : items(item, depth + 1);
            } else {
                behind_dash_ = true;
                item.is_mapping() ? entries(item, depth + 1) : items(item, depth + 1);
            }
        }
    }
    void leaf(const Value& value, std::size_t depth) {
        if (!value.tag.empty())
            text_ += value.tag + ' ';
        if (value.is_mapping())
            text_ += "{}";
        else if (value.is_sequence())
            text_ += "[]";
        else if (value.is_null() || (value.plain && value.text.empty() && value.tag.empty()))
            text_ += "null";
        else if (is_block(value.text) && !value.plain)
            return block(value.text, depth);
        else if ((value.plain && may_stay_plain(value.text)) || is_bare_word(value.text))
            text_ += value.text;
        else
            text_ += in_quotes(value.text);
        text_ += '\n';
    }
    void block(const std::string& text, std::size_t depth) {
        text_ += "|\n";
        for (std::size_t from = 0; from < text.size();) {
            const std::size_t end = text.find('\n', from);
            if (end > from)
                text_.append(2 * depth, ' ').append(text, from, end - from);
            text_ += '\n';
            from = end + 1;
        }
    }

    std::string text_;
    bool behind_dash_ = false;
};

}  // namespace

std::string yaml_text(const Value& root) {
    if (root.entries.empty())
        return "{}\n";
    YamlText text;
    text.entries(root, 0);
    return text.take();
}

}  // namespace autolaunch::launcher
