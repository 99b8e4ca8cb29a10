#pragma once
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// What a terminal shows of the bytes that it gets: as much of one as the console uses. It may be
/// made narrower. Then some break their lines anew, and the cursor stays with its character (VTE,
/// kitty, tmux); others cut them off (xterm). Every character is one column.
class SmallTerminal {
public:
    SmallTerminal(std::size_t columns, bool breaks_anew)
        : columns_(columns), breaks_anew_(breaks_anew) {}

    void feed(std::string_view bytes) {
        for (std::size_t at = 0; at < bytes.size();) {
            if (bytes[at] == '\x1b')
                at = obey(bytes, at);
            else
                at = write(bytes, at);
        }
    }

    void resize(std::size_t columns) {
        columns_ = columns;
        row_ = row_begin();
        if (breaks_anew_)
            return;
        for (Line& line : lines_)
            line.resize(std::min(line.size(), columns));
        at_ = std::min(at_, columns - 1);
        row_ = 0;
    }

    /// Lines as they were written, however they are broken; none that is empty at the end.
    std::vector<std::string> lines() const {
        std::vector<std::string> texts;
        for (const Line& line : lines_) {
            std::string text;
            for (const std::string& character : line)
                text += character;
            text.erase(text.find_last_not_of(' ') + 1);
            texts.push_back(std::move(text));
        }
        while (!texts.empty() && texts.back().empty())
            texts.pop_back();
        return texts;
    }

private:
    using Line = std::vector<std::string>;  // a character a column

    std::size_t column() const { return at_ % columns_; }
    std::size_t row_begin() const { return at_ - column(); }

    std::size_t write(std::string_view bytes, std::size_t at) {
        if (bytes[at] == '\r') {
            at_ = row_ = at_ == row_ + columns_ ? row_ : row_begin();
            return at + 1;
        }
        if (bytes[at] == '\n') {
            down();
            return at + 1;
        }
        std::size_t end = at + 1;
        while (end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80)
            ++end;
        if (!wraps_ && at_ >= row_ + columns_) {
            at_ = row_ + columns_ - 1;
        } else if (at_ == columns_ && !breaks_anew_) {
            at_ = 0;
            down();
        }
        Line& line = lines_[line_];
        line.resize(std::max(line.size(), at_ + 1), " ");
        line[at_++] = bytes.substr(at, end - at);
        return end;
    }

    void down() {
        const std::size_t column_now = column();
        if (row_begin() + columns_ < lines_[line_].size()) {
            at_ += columns_;
        } else {
            if (++line_ == lines_.size())
                lines_.emplace_back();
            at_ = column_now;
        }
        row_ = row_begin();
    }

    void up() {
        const std::size_t column_now = column();
        if (row_begin() >= columns_) {
            at_ -= columns_;
        } else if (line_ > 0) {
            --line_;
            const std::size_t size = lines_[line_].size();
            at_ = (size == 0 ? 0 : (size - 1) / columns_ * columns_) + column_now;
        }
        row_ = row_begin();
    }

    std::size_t obey(std::string_view bytes, std::size_t at) {
        std::size_t end = at + 2;  // behind ESC [
        int number = 0;
        for (; end < bytes.size() && !std::isalpha(static_cast<unsigned char>(bytes[end])); ++end)
            if (std::isdigit(static_cast<unsigned char>(bytes[end])))
                number = number * 10 + (bytes[end] - '0');
        Line& line = lines_[line_];
        const char what = end < bytes.size() ? bytes[end] : 'm';
        if (what == 'J' || (what == 'K' && row_begin() + columns_ >= line.size()))
            line.resize(std::min(line.size(), at_));
        else if (what == 'K')
            std::fill(line.begin() + static_cast<std::ptrdiff_t>(at_),
                      line.begin() + static_cast<std::ptrdiff_t>(row_begin() + columns_), " ");
        if (what == 'J')
            lines_.resize(line_ + 1);
        if (number == 7 && (what == 'l' || what == 'h'))
            wraps_ = what == 'h';
        if (what == 'C')
            ++at_;
        for (int i = 0; what == 'A' && i < std::max(number, 1); ++i)
            up();
        return end + 1;
    }

    std::size_t columns_;
    bool breaks_anew_;
    std::vector<Line> lines_ = std::vector<Line>(1);
    std::size_t line_ = 0, at_ = 0;
    std::size_t row_ = 0;  // where the cursor's row began when it came there
    bool wraps_ = true;
};
