#include "report/charset.hpp"

#include "report/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kSigns = {{
    {"…", "..."}, {"·", "-"},  {"×", "x"}, {"✗", "x"}, {"✓", "ok"}, {"━", "="},  {"╸", ">"},
    {"─", "-"},   {"│", "|"},  {"├", "|"}, {"└", "`"}, {"→", "->"}, {"–", "-"},  {"—", "-"},
    {"“", "\""},  {"”", "\""}, {"‘", "'"}, {"’", "'"}, {"≥", ">="}, {"≤", "<="}, {"µ", "u"},
}};

bool names_utf8(std::string_view locale) {
    std::string name(locale);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("utf-8") != name.npos || name.find("utf8") != name.npos;
}

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string_view sign_for(std::string_view text) {
    for (const auto& [sign, words] : kSigns)
        if (text.starts_with(sign))
            return words;
    return {};
}

}  // namespace

Charset charset_of(std::string_view lc_all, std::string_view lc_ctype, std::string_view lang) {
    for (const std::string_view locale : {lc_all, lc_ctype, lang})
        if (!locale.empty())
            return names_utf8(locale) ? Charset::utf8 : Charset::ascii;
    return Charset::utf8;
}

Charset charset_of_environment() {
    return charset_of(variable("LC_ALL"), variable("LC_CTYPE"), variable("LANG"));
}

std::string in_charset(std::string_view text, Charset charset) {
    if (charset == Charset::utf8)
        return std::string(text);
    std::string plain;
    plain.reserve(text.size());
    while (!text.empty()) {
        const Character character = decode_character(text);
        const std::size_t bytes = std::max<std::size_t>(1, character.bytes);
        if (character.bytes == 1)
            plain += text.front();
        else if (character.bytes == 0)
            plain += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
        else if (const std::string_view words = sign_for(text); !words.empty())
            plain += words;
        else
            plain += fmt::format("\\u{{{:04x}}}", static_cast<unsigned>(character.code));
        text.remove_prefix(bytes);
    }
    return plain;
}

std::string_view ellipsis(Charset charset) { return charset == Charset::utf8 ? "…" : "..."; }

}  // namespace autolaunch::launcher
