#include "report/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kResetColours = "\x1b[0m";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool in(char byte, char first, char last) { return byte >= first && byte <= last; }

// Length of the escape sequence that `text` begins with (ECMA-48); 0 when it is none or not
// complete.
std::size_t escape_sequence(std::string_view text) {
    if (text.size() < 2 || text[0] != kEscape)
        return 0;
    if (text[1] == '[') {  // CSI: parameters, intermediates, one final byte
        std::size_t i = 2;
        while (i < text.size() && in(text[i], 0x20, 0x3F))
            ++i;
        return i < text.size() && in(text[i], 0x40, 0x7E) ? i + 1 : 0;
    }
    if (text[1] == ']' || text[1] == 'P' || text[1] == '_' || text[1] == '^' ||
        text[1] == 'X') {  // strings: OSC, DCS, …
        for (std::size_t i = 2; i < text.size(); ++i) {
            if (text[i] == '\a')
                return i + 1;
            if (text[i] == kEscape && i + 1 < text.size() && text[i + 1] == '\\')
                return i + 2;
        }
        return 0;
    }
    std::size_t i = 1;
    while (i < text.size() && in(text[i], 0x20, 0x2F))
        ++i;
    return i < text.size() && in(text[i], 0x30, 0x7E) ? i + 1 : 0;
}

// "ESC [ digits ; : m" and nothing else: private forms such as "ESC [ > m" are not colours.
bool is_colour(std::string_view sequence) {
    return sequence.size() >= 3 && sequence[1] == '[' && sequence.back() == 'm' &&
           std::all_of(sequence.begin() + 2, sequence.end() - 1,
                       [](char c) { return in(c, '0', ';'); });
}

// Marks that turn the direction of text, so that it reads as something else (CVE-2021-42574), and
// line separators.
bool is_deceptive(char32_t code) {
    return (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

struct Range {
    char32_t first, last;
};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, char32_t code) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [code](Range r) { return code >= r.first && code <= r.last; });
}

// The large blocks of Unicode's East Asian Wide and of its combining and joining characters.
constexpr std::array<Range, 10> kWide = {{{0x1100, 0x115F},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0xFFE0, 0xFFE6},
                                          {0x1F300, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 6> kNoWidth = {{{0x0300, 0x036F},
                                            {0x1AB0, 0x1AFF},
                                            {0x1DC0, 0x1DFF},
                                            {0x200B, 0x200F},
                                            {0x20D0, 0x20FF},
                                            {0xFE00, 0xFE0F}}};

int width_of(char32_t code) {
    if (code < 0x300)
        return 1;
    if (within(kNoWidth, code))
        return 0;
    return within(kWide, code) ? 2 : 1;
}

// Beyond the first plane a pair of surrogates, as RFC 8259 has it.
std::string json_escape(char32_t code) {
    const auto number = static_cast<unsigned>(code);
    if (number < 0x10000)
        return fmt::format("\\u{:04x}", number);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((number - 0x10000) >> 10),
                       0xDC00 + ((number - 0x10000) & 0x3FF));
}

// Calls visit(piece, columns) for each character or colour sequence until it returns false.
template <class Visit>
void for_each_piece(std::string_view text, Visit visit) {
    while (!text.empty()) {
        std::size_t bytes = escape_sequence(text);
        int columns = 0;
        if (bytes == 0) {
            const Character character = decode_character(text);
            bytes = std::max<std::size_t>(1, character.bytes);
            columns = character.bytes == 0 ? 1 : width_of(character.code);
        }
        if (!visit(text.substr(0, bytes), columns))
            return;
        text.remove_prefix(bytes);
    }
}

}  // namespace

Character decode_character(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80)
        return {lead, 1};
    const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes)
        return {};
    char32_t code = lead & (0x7Fu >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if (!is_continuation(text[i]))
            return {};
        code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    }
    const char32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return {};
    return {code, bytes};
}

std::string escape_for_terminal(std::string_view text, Colours colours) {
    std::string safe;
    safe.reserve(text.size());
    bool coloured = false;
    while (!text.empty()) {
        const auto plain = std::find_if(text.begin(), text.end(),
                                        [](char c) { return !(in(c, ' ', '~') || c == '\t'); });
        safe.append(text.begin(), plain);
        text.remove_prefix(static_cast<std::size_t>(plain - text.begin()));
        if (text.empty())
            break;
        std::size_t bytes = escape_sequence(text);
        if (bytes > 0) {
            if (colours == Colours::keep && is_colour(text.substr(0, bytes))) {
                safe += text.substr(0, bytes);
                coloured = true;
            }
        } else {
            const Character character = decode_character(text);
            bytes = std::max<std::size_t>(1, character.bytes);
            if (is_deceptive(character.code))
                safe += fmt::format("\\u{{{:04x}}}", static_cast<unsigned>(character.code));
            else if (character.bytes == 0 || character.code < 0xA0)  // not UTF-8, C0, DEL, C1
                for (const char byte : text.substr(0, bytes))
                    safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
            else
                safe += text.substr(0, bytes);
        }
        text.remove_prefix(bytes);
    }
    if (coloured)
        safe += kResetColours;
    return safe;
}

std::string escape_lines(std::string_view text, Colours colours) {
    std::string safe;
    safe.reserve(text.size());
    for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
        safe += escape_for_terminal(text.substr(0, end), colours) + '\n';
        text.remove_prefix(end + 1);
    }
    return safe + escape_for_terminal(text, colours);
}

std::string escape_json(std::string_view text, Charset charset) {
    std::string safe;
    safe.reserve(text.size());
    while (!text.empty()) {
        const Character character = decode_character(text);
        const std::size_t bytes = std::max<std::size_t>(1, character.bytes);
        const bool obeyed =
            character.bytes > 0 &&
            ((character.code >= 0x7F && character.code < 0xA0) || is_deceptive(character.code));
        if (obeyed || (charset == Charset::ascii && character.bytes > 1))
            safe += json_escape(character.code);
        else
            safe += text.substr(0, bytes);
        text.remove_prefix(bytes);
    }
    return safe;
}

int display_width(std::string_view text) {
    int width = 0;
    for_each_piece(text, [&width](std::string_view, int columns) {
        width += columns;
        return true;
    });
    return width;
}

std::string fit_width(std::string_view text, int columns, Charset charset) {
    if (display_width(text) <= columns)
        return std::string(text);
    const std::string_view dots = ellipsis(charset);
    const int room = columns - display_width(dots);
    std::string fitted;
    int width = 0;
    bool coloured = false;
    for_each_piece(text, [&](std::string_view piece, int piece_columns) {
        if (width + piece_columns > room)
            return false;
        width += piece_columns;
        coloured |= piece[0] == kEscape;
        fitted += piece;
        return true;
    });
    if (room >= 0)
        fitted += dots;
    if (coloured)
        fitted += kResetColours;
    return fitted;
}

}  // namespace autolaunch::launcher
