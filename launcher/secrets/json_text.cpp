#include "secrets/json_text.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kIndent = 2;

// A name from outside need not be UTF-8; it is shown with replacement characters rather than
// refused.
std::string dump(const Json& tree, int indent) {
    return tree.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// To the end in any case, so that the compiler takes many bytes at a time.
bool is_plain(std::string_view text) {
    bool plain = true;
    for (const char c : text)
        plain &= c >= ' ' && c <= '~' && c != '"' && c != '\\';
    return plain;
}

}  // namespace

void JsonText::begin(char bracket) {
    text_ += bracket;
    ++depth_;
    empty_ = true;
}

void JsonText::end(char bracket) {
    --depth_;
    if (!empty_)
        text_.append("\n").append(depth_ * kIndent, ' ');
    text_ += bracket;
    empty_ = false;
}

void JsonText::next() {
    text_.append(empty_ ? "\n" : ",\n").append(depth_ * kIndent, ' ');
    empty_ = false;
}

void JsonText::append_quoted(std::string_view text) {
    if (is_plain(text))
        text_.append("\"").append(text).append("\"");
    else
        text_ += dump(text, -1);
}

void JsonText::put(std::string_view text) {
    if (secrets_ == Secrets::show)
        return append_quoted(text);
    safe_ = text;
    mask_text(safe_, known_);
    append_quoted(safe_);
}

void JsonText::put_tree(Json tree) {
    if (secrets_ == Secrets::mask)
        mask_texts(tree, known_);
    for (const char c : dump(tree, kIndent)) {  // within a text, a new line is \n
        text_ += c;
        if (c == '\n')
            text_.append(depth_ * kIndent, ' ');
    }
}

}  // namespace autolaunch::launcher
