#pragma once
#include "causes/final_error.hpp"
#include "causes/kernel_words.hpp"
#include "causes/told_signal.hpp"
#include "logs/line_splitter.hpp"
#include "report/charset.hpp"
#include "report/terminal_text.hpp"
#include "require.hpp"
#include "secrets/secrets.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

namespace printed_line {

using fuzz::require;

/// Only characters, tabs and, where they are kept, colours.
inline bool is_safe(std::string_view text, Colours colours) {
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte == 0x7f || (byte < ' ' && c != '\t' && (c != '\x1b' || colours == Colours::strip)))
            return false;
    }
    return true;
}

inline void check_text(std::string_view line) {
    for (const Colours colours : {Colours::strip, Colours::keep}) {
        const std::string text = escape_for_terminal(line, colours);
        require(is_safe(text, colours));
        if (colours == Colours::strip)
            require(escape_for_terminal(text, colours) == text);
        for (const int columns : {0, 1, 20})
            require(display_width(fit_width(text, columns)) <= columns);
    }
    for (const char c : in_charset(escape_for_terminal(line, Colours::strip), Charset::ascii))
        require(static_cast<unsigned char>(c) < 0x7f);
}

/// However the stream is cut, each byte comes in order and lines are bounded.
inline std::vector<LogLine> lines_of(std::string_view bytes, std::size_t piece) {
    std::vector<LogLine> lines;
    LineSplitter splitter;
    LineSplitter::Time now{};
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
        splitter.feed(bytes.substr(0, piece), now, lines);
        require(splitter.live().size() <= LineSplitter::kMostRows + 1);
    }
    splitter.idle(now + std::chrono::hours(1), lines);
    splitter.finish(lines);
    return lines;
}

}  // namespace printed_line

/// What a rank prints, as anything: lines of bounded length that can only put characters on a
/// terminal, and what may be told of an end by them. Aborts where that is not so. How many lines
/// there were.
inline std::size_t check_printed_bytes(std::string_view bytes) {
    using namespace printed_line;
    std::vector<std::string> texts;
    for (const std::size_t piece : {bytes.size() + 1, std::size_t{7}})
        for (const LogLine& line : lines_of(bytes, piece)) {
            require(line.text.size() <= LineSplitter::kLongLineBytes);
            texts.push_back(line.text);
        }
    for (const std::string& text : texts) {
        check_text(text);
        read_xid(text);
        read_oom_victim(text);
        tells_fault_of(text, 812);
        is_telling_kernel_line(text);
        const std::string masked = mask_secrets(text);
        require(mask_secrets(masked) == masked);
    }
    FailureEvidence words;
    words.last_lines = texts;
    find_final_error(words);
    require(last_complaint(words).empty() || !texts.empty());
    find_told_signal(texts);
    read_hidden_end(texts);
    return texts.size();
}

}  // namespace autolaunch::launcher
