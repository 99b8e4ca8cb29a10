#include "secrets/secrets.hpp"

#include "secrets/secret_shapes.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kShortestKnown = 6;  // shorter ones would be found in other words

bool is_name_byte(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && (std::isalnum(byte) != 0 || c == '_' || c == '-' || c == '.');
}

/// "required", "/run/key" and "123456" are parts of other texts too.
bool is_odd(std::string_view value) {
    if (value.size() < kShortestKnown || value.starts_with('/') || value == kMasked)
        return false;
    const auto all = [&](auto is) { return std::all_of(value.begin(), value.end(), is); };
    if (all([](unsigned char c) { return std::isdigit(c) != 0; }))
        return value.size() >= 12;
    return value.size() >= 16 || !all([](unsigned char c) { return std::islower(c) != 0; });
}

void hide_known(std::string& text, std::span<const std::string> known) {
    for (const std::string& secret : known) {
        if (secret.empty())
            continue;
        for (std::size_t at = text.find(secret); at != std::string::npos;
             at = text.find(secret, at + kMasked.size()))
            text.replace(at, secret.size(), kMasked);
    }
}

/// A text with parts of it masked. Most texts have none, and stay as they are.
class Masking {
public:
    explicit Masking(std::string& text) : text_(text) {}
    Masking(const Masking&) = delete;
    Masking& operator=(const Masking&) = delete;
    ~Masking() {
        if (copied_ > 0)
            text_ = std::move(safe_.append(text_, copied_));
    }
    void hide(std::size_t begin, std::size_t size) {
        safe_.append(text_, copied_, begin - copied_).append(kMasked);
        copied_ = begin + size;
    }

private:
    std::string& text_;
    std::string safe_;
    std::size_t copied_ = 0;
};

void hide_shapes(std::string& text) {
    Masking masking(text);
    for (SecretPlace found = find_secret(text, 0); found.size > 0;
         found = find_secret(text, found.begin + found.size))
        masking.hide(found.begin, found.size);
}

/// Of a value that stands in running text: in its quotes, or up to what ends a word. A $VARIABLE
/// holds nothing itself.
std::string_view value_at(std::string_view text) {
    if (text.empty() || text[0] == '$')
        return {};
    if (text[0] == '"' || text[0] == '\'') {
        const std::size_t end = text.find(text[0], 1);
        const std::string_view inner = text.substr(1, end == text.npos ? end : end - 1);
        return inner.starts_with('$') ? std::string_view() : inner;
    }
    std::string_view word = text.substr(0, text.find_first_of(" \t\r\n,;&|)\"'`}]>"));
    if (word.ends_with(':'))  // of the sentence
        word.remove_suffix(1);
    return word;
}

/// The name that ends at `end`.
std::string_view name_before(std::string_view text, std::size_t end) {
    std::size_t begin = end;
    while (begin > 0 && is_name_byte(text[begin - 1]))
        --begin;
    return text.substr(begin, end - begin);
}

/// Masks each value that stands behind a separator which `is_behind_name` takes for one.
void hide_assigned(std::string& given, char separator,
                   bool (*is_behind_name)(std::string_view text, std::size_t at)) {
    Masking masking(given);
    const std::string_view text = given;
    for (std::size_t i = text.find(separator); i < text.size(); i = text.find(separator, i + 1)) {
        if (!is_behind_name(text, i))
            continue;
        const std::string_view value = value_at(text.substr(i + 1));
        if (value.empty() || value == kMasked)
            continue;
        const auto begin = static_cast<std::size_t>(value.data() - text.data());
        masking.hide(begin, value.size());
        i = begin + value.size() - 1;
    }
}

bool is_assignment(std::string_view text, std::size_t at) {
    const std::string_view name = name_before(text, at);
    const std::size_t begin = at - name.size();
    // A signature within an address of Azure's storage.
    const bool signature =
        name == "sig" && begin > 0 && (text[begin - 1] == '&' || text[begin - 1] == '?');
    return signature || (!name.empty() && names_secret(name));
}

/// --token VALUE, in a line of several words.
bool is_option(std::string_view text, std::size_t at) {
    const char next = at + 1 < text.size() ? text[at + 1] : ' ';
    if (next == '-' || next == ' ')
        return false;
    const std::string_view name = name_before(text, at);
    return name.starts_with("--") && names_secret(name);
}

}  // namespace

std::vector<std::string> secret_values(const std::map<std::string, std::string>& environment) {
    std::vector<std::string> values;
    for (const auto& [name, value] : environment)
        if (names_secret(name) && is_odd(value))
            values.push_back(value);
    // The longest first: one may be a part of another.
    std::sort(values.begin(), values.end(),
              [](const auto& a, const auto& b) { return a.size() > b.size(); });
    return values;
}

void hide_values(std::string& text, std::span<const std::string> known) { hide_known(text, known); }

void mask_text(std::string& text, std::span<const std::string> known) {
    hide_known(text, known);
    hide_shapes(text);
    hide_assigned(text, '=', is_assignment);
}

std::string mask_secrets(std::string_view text, std::span<const std::string> known) {
    std::string safe(text);
    mask_text(safe, known);
    return safe;
}

std::vector<std::string> mask_arguments(const std::vector<std::string>& arguments,
                                        std::span<const std::string> known) {
    std::vector<std::string> safe;
    bool follows_option = false;
    for (const std::string& argument : arguments) {
        const bool option = argument.starts_with('-');
        safe.push_back(argument);
        if (!follows_option || option) {
            mask_text(safe.back(), known);
            hide_assigned(safe.back(), ' ', is_option);
        } else if (!argument.empty()) {
            safe.back() = kMasked;
        }
        follows_option = option && argument.find('=') == std::string::npos &&
                         argument.find(' ') == std::string::npos && names_secret(argument);
    }
    return safe;
}

}  // namespace autolaunch::launcher
