#pragma once
#include "report/charset.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

enum class Colours { strip, keep };

struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;  ///< 0: not UTF-8
};
/// The character that `text` (not empty) begins with, by RFC 3629: no overlong forms, no
/// surrogates, at most U+10FFFF. Pure.
Character decode_character(std::string_view text);

/// `text` (one line) such that it can only put characters on a terminal: control bytes and bytes
/// that are not UTF-8 become \xNN, invisible direction marks \u{NNNN}; escape sequences are
/// dropped, except colours (SGR) when they are kept, which are then closed at the end. Tabs stay.
/// Pure.
std::string escape_for_terminal(std::string_view text, Colours colours);

/// The same for each line of a text.
std::string escape_lines(std::string_view text, Colours colours);
/// The same for JSON text, where such characters are only in strings: they become \uNNNN, which
/// says the same to every reader of JSON. What is not UTF-8 stays. In ASCII all others do, too.
std::string escape_json(std::string_view text, Charset charset = Charset::utf8);

/// Columns that `text` takes: wide characters two, combining ones none, escape sequences for
/// colours none.
int display_width(std::string_view text);
/// The longest beginning of `text` that fits in `columns`, ending in "…" (in ASCII "...") when
/// something was cut. Colours stay closed.
std::string fit_width(std::string_view text, int columns, Charset charset = Charset::utf8);

}  // namespace autolaunch::launcher
