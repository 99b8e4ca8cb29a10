#include "logs/line_splitter.hpp"

#include "report/terminal_text.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

// Of `text`, how many bytes are whole UTF-8 characters: a cut behind them splits none. At most
// three bytes are held back, so text that is not UTF-8 passes too.
std::size_t whole_characters(std::string_view text) {
    std::size_t lead = text.size();
    for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0) == 0x80)
            continue;
        const std::size_t length = byte >= 0xF5   ? 1
                                   : byte >= 0xF0 ? 4
                                   : byte >= 0xE0 ? 3
                                   : byte >= 0xC0 ? 2
                                                  : 1;
        if (length > back)
            lead = text.size() - back;
        break;
    }
    return lead;
}

constexpr std::size_t kLongestSequence = 16;

/// ESC [ NUMBER A: the cursor goes up that many lines.
struct CursorUp {
    std::size_t begin = std::string_view::npos, end = 0;  // where it is; npos: there is none
    std::size_t rows = 0;
    bool cut = false;  // the text ends within what may be one
};

CursorUp find_cursor_up(std::string_view text) {
    for (std::size_t at = text.find('\x1b'); at != text.npos; at = text.find('\x1b', at + 1)) {
        std::size_t end = at + 1, rows = 0;
        if (end < text.size() && text[end] != '[')
            continue;
        for (++end; end < text.size() && text[end] >= '0' && text[end] <= '9'; ++end)
            rows = std::min<std::size_t>(rows * 10 + static_cast<std::size_t>(text[end] - '0'),
                                         LineSplitter::kMostRows);
        if (end >= text.size() && end - at < kLongestSequence)
            return {at, text.size(), 0, true};
        if (end >= text.size())
            return {};
        if (text[end] == 'A')
            return {at, end + 1, std::max<std::size_t>(rows, 1), false};
    }
    return {};
}

// What a person would see of it is nothing: a bar that was taken away.
bool is_blank(std::string_view text) {
    const std::string seen = escape_for_terminal(text, Colours::strip);
    return seen.find_first_not_of(" \t") == seen.npos;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, Time now, std::vector<LogLine>& lines) {
    stream_bytes_ += bytes.size();
    last_fed_ = now;
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        take(bytes.substr(0, end), lines);
        if (end == std::string_view::npos)
            return;
        if (!sequence_.empty())
            write(std::exchange(sequence_, {}), lines);
        if (!go_down())
            complete(lines);
        bytes.remove_prefix(end + 1);
    }
}

// A part of a line, in which the cursor may go up.
void LineSplitter::take(std::string_view bytes, std::vector<LogLine>& lines) {
    if (sequence_.empty() && bytes.find('\x1b') == bytes.npos)
        return write(bytes, lines);
    const std::string joined = std::exchange(sequence_, {}) + std::string(bytes);
    std::string_view text = joined;
    for (CursorUp up = find_cursor_up(text); up.begin != text.npos; up = find_cursor_up(text)) {
        write(text.substr(0, up.begin), lines);
        if (up.cut) {
            sequence_ = text.substr(up.begin);
            return;
        }
        go_up(up.rows);
        text.remove_prefix(up.end);
    }
    write(text, lines);
}

// The same, with carriage returns perhaps. Those at a line's very end belong to its end ("\r\n").
void LineSplitter::write(std::string_view bytes, std::vector<LogLine>& lines) {
    if (bytes.empty())
        return;
    const std::size_t last = bytes.find_last_not_of('\r');
    std::string_view body = bytes.substr(0, last == std::string_view::npos ? 0 : last + 1);
    if (!body.empty()) {
        const std::size_t overwritten = body.rfind('\r');
        if (pending_return_ || overwritten != std::string_view::npos)
            overwrite();
        if (overwritten != std::string_view::npos)
            body.remove_prefix(overwritten + 1);
        partial_ += body;
        shown_ = false;
        while (partial_.size() >= kLongLineBytes)
            give_piece(kLongLineBytes, lines);
    }
    pending_return_ = body.size() < bytes.size() && bytes.back() == '\r';
}

void LineSplitter::overwrite() {
    partial_.clear();
    continues_ = false;
    if (!progress_since_)
        progress_since_ = last_fed_;
}

// Rows above the highest are there from before: what they say is not known.
void LineSplitter::go_up(std::size_t rows) {
    if (!progress_since_)
        progress_since_ = last_fed_;
    if (rows_.empty()) {
        rows_.resize(1);
        row_ = 0;
    }
    keep_row();
    if (rows > row_ && rows_.size() < kMostRows) {
        const std::size_t more = std::min(rows - row_, kMostRows - rows_.size());
        rows_.insert(rows_.begin(), more, Row{});
        row_ += more;
    }
    go_to(row_ - std::min(rows, row_));
}

// To the row below, if the cursor came up from there.
bool LineSplitter::go_down() {
    if (row_ + 1 >= rows_.size())
        return false;
    keep_row();
    go_to(row_ + 1);
    return true;
}

void LineSplitter::go_to(std::size_t row) {
    row_ = row;
    partial_ = rows_[row].text;
    shown_ = rows_[row].given;
    continues_ = false;
    pending_return_ = true;  // what comes is written over it
}

void LineSplitter::keep_row() { rows_[row_] = {partial_, shown_ || partial_.empty()}; }

void LineSplitter::give_rows(std::vector<LogLine>& lines) {
    keep_row();
    for (Row& row : rows_)
        if (!std::exchange(row.given, true) && !is_blank(row.text))
            lines.push_back({row.text, false});
    shown_ = true;
}

void LineSplitter::give_piece(std::size_t bytes, std::vector<LogLine>& lines) {
    const std::size_t whole = whole_characters(std::string_view(partial_).substr(0, bytes));
    if (whole == 0)
        return;
    lines.push_back({partial_.substr(0, whole), continues_});
    partial_.erase(0, whole);
    continues_ = true;
}

void LineSplitter::complete(std::vector<LogLine>& lines) {
    const bool nothing_new =
        shown_ || (continues_ && partial_.empty()) || (progress_since_ && is_blank(partial_));
    if (!rows_.empty())
        give_rows(lines);
    else if (!nothing_new)
        lines.push_back({std::move(partial_), continues_});
    rows_.clear();
    row_ = 0;
    partial_.clear();
    continues_ = shown_ = pending_return_ = false;
    progress_since_.reset();
}

void LineSplitter::idle(Time now, std::vector<LogLine>& lines, bool states_are_shown) {
    if (progress_since_) {
        if (states_are_shown || now - *progress_since_ < kProgressInterval)
            return;
        if (!rows_.empty())
            give_rows(lines);
        else if (!std::exchange(shown_, true) && !is_blank(partial_))
            lines.push_back({partial_, false});
        progress_since_ = now;
        return;
    }
    if (partial_.empty() || shown_)
        return;
    const bool buffer_was_full = stream_bytes_ % kStdioBlockBytes == 0;
    if (now - last_fed_ >= (buffer_was_full ? kBlockDelay : kPromptDelay))
        give_piece(partial_.size(), lines);
}

void LineSplitter::finish(std::vector<LogLine>& lines) {
    write(std::exchange(sequence_, {}), lines);
    if (!partial_.empty() || !rows_.empty())
        complete(lines);
    continues_ = shown_ = pending_return_ = false;
    progress_since_.reset();
}

std::vector<std::string> LineSplitter::live() const {
    std::vector<std::string> states;
    if (!progress_since_)
        return states;
    for (std::size_t i = 0; i < std::max<std::size_t>(rows_.size(), 1); ++i) {
        const std::string& text = rows_.empty() || i == row_ ? partial_ : rows_[i].text;
        if (!is_blank(text))
            states.push_back(text);
    }
    return states;
}

}  // namespace autolaunch::launcher
