#include "spec/stored_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace autolaunch::launcher {

namespace {

bool is_word_byte(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && (std::isalnum(byte) != 0 || c == '_');
}

/// What no reader of YAML takes for anything but plain text, or the number that it is.
bool may_be_plain(std::string_view text) {
    constexpr std::string_view kInside = "_.+-/${}:";
    if (text.empty() || text.ends_with(':') || text.find("---") == 0)
        return false;
    const bool sign = text[0] == '-' || text[0] == '+' || text[0] == '.';
    const char first = sign && text.size() > 1 ? text[1] : text[0];
    const bool path = first == '/' && !sign;
    if (!is_word_byte(first) && !path && !text.starts_with("${") && !(sign && first == '.'))
        return false;
    return std::all_of(text.begin(), text.end(), [&](char c) {
        return is_word_byte(c) || kInside.find(c) != std::string_view::npos;
    });
}

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out.append(1, '\\').append(1, c);
        else if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out + '"';
}

bool is_null_word(std::string_view text) {
    constexpr std::array<std::string_view, 5> kNull = {"", "null", "Null", "NULL", "~"};
    return std::find(kNull.begin(), kNull.end(), text) != kNull.end();
}

std::string key_text(const std::string& key) {
    const bool word = std::all_of(key.begin(), key.end(), is_word_byte) && !is_null_word(key);
    return word ? key : in_quotes(key);
}

std::string tag_text(const std::string& tag) {
    if (tag.empty())
        return {};
    return (tag.starts_with('!') ? tag : "!<" + tag + '>') + ' ';
}

class Writer {
public:
    std::string take() { return std::move(text_); }

    /// Behind "key:" or "-"; ends its line.
    void value(const Value& value, std::size_t depth) {
        const bool is_open = (value.is_mapping() && !value.entries.empty()) ||
                             (value.is_sequence() && !value.items.empty());
        if (is_open && value.tag.empty()) {
            text_ += '\n';
            return inner(value, depth);
        }
        text_ += ' ' + tag_text(value.tag);
        if (is_open) {
            text_.back() = '\n';
            return inner(value, depth);
        }
        const bool is_plain = value.plain && value.tag.empty();
        const bool null = value.is_null() || (is_plain && is_null_word(value.text));
        text_ += value.is_mapping()                     ? "{}"
                 : value.is_sequence()                  ? "[]"
                 : null                                 ? "null"
                 : is_plain && may_be_plain(value.text) ? value.text
                                                        : in_quotes(value.text);
        text_ += '\n';
    }
    void inner(const Value& value, std::size_t depth) {
        const std::string indent(2 * depth, ' ');
        for (const Entry& entry : value.entries) {
            text_ += indent + key_text(entry.key) + ':';
            this->value(entry.value, depth + 1);
        }
        for (const Value& item : value.items) {
            text_ += indent + '-';
            this->value(item, depth + 1);
        }
    }

private:
    std::string text_;
};

}  // namespace

std::string to_yaml(const Value& root) {
    Writer writer;
    if (!root.is_mapping() || root.entries.empty())
        return "{}\n";
    writer.inner(root, 0);
    return writer.take();
}

}  // namespace autolaunch::launcher
