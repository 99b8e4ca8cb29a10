#include "report/console.hpp"

#include "report/terminal_text.hpp"
#include "secrets/secrets.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace autolaunch::launcher {

namespace {

// Not in the first column: on the screen's first line tmux takes that for a whole screen, and keeps
// it.
constexpr std::string_view kEraseBelow = "\r\x1b[K\x1b[C\x1b[J\r";
constexpr std::string_view kEraseRest = "\x1b[K";
constexpr std::string_view kEraseAfter = "\x1b[J\r";
// A terminal may become narrower than we know while we write: what does not fit must not go on in
// the next row.
constexpr std::string_view kNoWrap = "\x1b[?7l", kWrap = "\x1b[?7h";

bool same_place(int a, int b) {
    struct stat first {
    }, second{};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

std::string paint_prefix(OutputStream stream, std::string_view prefix, const TextStyle& style) {
    return stream == OutputStream::err ? style.yellow(prefix) : style.dim(prefix);
}

}  // namespace

ConsoleOptions ConsoleOptions::from_environment() {
    ConsoleOptions options;
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    options.cursor_control = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
    options.colours = options.cursor_control && (no_color == nullptr || *no_color == '\0');
    options.charset = charset_of_environment();
    return options;
}

Console::Console(ConsoleOptions options)
    : options_(std::move(options)), err_(std::make_unique<OutputChannel>(options_.stderr_fd)) {
    if (!same_place(options_.stdout_fd, options_.stderr_fd))
        out_ = std::make_unique<OutputChannel>(options_.stdout_fd);
    if (!options_.cursor_control || options_.ranks_write_bytes)
        return;
    if (err_->is_terminal()) {
        status_channel_ = err_.get();
    } else if (out_ && out_->is_terminal()) {
        status_channel_ = out_.get();
    }
}

OutputChannel& Console::channel(OutputStream stream) const {
    return stream == OutputStream::out && out_ ? *out_ : *err_;
}

bool Console::ready(OutputStream stream) const {
    return channel(stream).queued_bytes() < kReadyBelowBytes;
}

void Console::append(OutputChannel& channel, std::string_view text) {
    if (&channel == status_channel_ && status_shown_) {
        channel.append(kEraseBelow);
        status_shown_ = false;
    }
    channel.append(text);
}

// Our own words do not go on in a rank's line. In a file or a pipe they do: there its bytes count.
void Console::end_line(OutputChannel& channel) {
    if (cut_line_ == &channel)
        append(channel, "\n");
    cut_line_ = nullptr;
}

void Console::write_bytes(OutputStream stream, std::string_view bytes) {
    if (bytes.empty())
        return;
    if (tap_)
        tap_(stream == OutputStream::out ? 1 : 2, bytes);
    OutputChannel& to = channel(stream);
    append(to, bytes);
    if (to.is_terminal())
        cut_line_ = bytes.back() == '\n' ? nullptr : &to;
    if (to.queued_bytes() >= kReadyBelowBytes)
        to.pump();
}

std::string Console::without_secrets(std::string_view text) const {
    std::string safe(text);
    hide_values(safe, hidden_);
    return safe;
}

void Console::write_line(OutputStream stream, std::string_view prefix, std::string_view text) {
    OutputChannel& to = channel(stream);
    const TextStyle style{options_.colours && to.is_terminal(), 0};
    std::string line;
    if (!prefix.empty())
        line = paint_prefix(stream, in_charset(prefix, options_.charset), style) + ' ';
    line +=
        escape_for_terminal(without_secrets(text), style.colours ? Colours::keep : Colours::strip);
    line += '\n';
    if (tap_)
        tap_(stream == OutputStream::out ? 1 : 2, line);
    end_line(to);
    append(to, line);
    if (to.queued_bytes() >= kReadyBelowBytes)
        to.pump();  // a reader that keeps up need not wait for the next tick
}

void Console::write_message(std::string_view text) {
    if (text.empty())
        return;
    if (err_->queued_bytes() + text.size() > kMessageLimitBytes) {
        ++dropped_messages_;
        return;
    }
    end_line(*err_);
    if (dropped_messages_ > 0)
        append(*err_, fmt::format("{} {} messages not shown\n", ellipsis(options_.charset),
                                  dropped_messages_));
    dropped_messages_ = 0;
    // Our messages quote job names, paths and errors: nothing but colours passes here either.
    if (text.back() == '\n')
        text.remove_suffix(1);
    const Colours colours = style().colours ? Colours::keep : Colours::strip;
    const std::string safe =
        escape_lines(mask_secrets(without_secrets(text), options_.secrets), colours);
    if (tap_)
        tap_(2, safe + '\n');
    append(*err_, in_charset(safe, options_.charset) + '\n');
}

bool Console::shows_live(OutputStream stream) const {
    return status_channel_ != nullptr && &channel(stream) == status_channel_;
}

void Console::set_live(std::vector<LiveLine> lines) {
    if (lines == live_)
        return;
    live_ = std::move(lines);
    status_changed_ = true;
}

void Console::set_status(std::string text) {
    if (text == status_)
        return;
    status_ = std::move(text);
    status_changed_ = true;
}

TextStyle Console::style() const {
    return {options_.colours && err_->is_terminal(), err_->columns()};
}

std::string Console::live_text(const LiveLine& line) const {
    const TextStyle style{options_.colours, 0};
    const std::string text = escape_for_terminal(without_secrets(line.text),
                                                 style.colours ? Colours::keep : Colours::strip);
    const std::string prefix = in_charset(line.prefix, options_.charset);
    return prefix.empty() ? text : style.dim(prefix) + ' ' + text;
}

// Live lines of ranks, then the status line, each cut to the width: one that reached the last
// column would wrap on some terminals.
std::vector<std::string> Console::lines_below() const {
    const auto most =
        static_cast<std::size_t>(std::clamp(status_channel_->rows() / 2, 1, kMostLiveLines));
    std::vector<std::string> lines;
    for (const LiveLine& line : live_) {
        if (lines.size() == most && live_.size() > most + 1) {
            lines.push_back(
                fmt::format("{} and {} more", ellipsis(options_.charset), live_.size() - most));
            break;
        }
        lines.push_back(live_text(line));
    }
    if (!status_.empty())
        lines.push_back(in_charset(status_, options_.charset));
    for (std::string& line : lines)
        line = fit_width(line, status_channel_->columns() - 1, options_.charset);
    return lines;
}

void Console::draw_status(Clock::time_point now) {
    if (status_channel_ == nullptr || status_channel_->queued_bytes() >= kReadyBelowBytes)
        return;
    if (status_.empty() && live_.empty()) {
        append(*status_channel_, "");  // takes away what is there
        return;
    }
    // A line above has taken it away: put it back with that line's own write, so that it does not
    // flicker. A terminal of another width has broken its lines.
    const int columns = status_channel_->columns();
    const bool due = !status_shown_ || columns != drawn_columns_ ||
                     (status_changed_ && now - drawn_at_ >= kRedrawInterval);
    if (!due)
        return;
    std::string text(columns < drawn_columns_ && status_shown_ ? kEraseBelow : "\r");
    text += kNoWrap;
    const std::vector<std::string> lines = lines_below();
    for (std::size_t i = 0; i < lines.size(); ++i)
        text += fmt::format("{}{}{}", i > 0 ? "\r\n" : "", lines[i], kEraseRest);
    text += kEraseAfter;
    if (lines.size() > 1)
        text += fmt::format("\x1b[{}A", lines.size() - 1);
    text += kWrap;
    status_channel_->append(text);
    status_shown_ = true;
    status_changed_ = false;
    drawn_columns_ = columns;
    drawn_at_ = now;
}

void Console::pump(Clock::time_point now) {
    draw_status(now);
    err_->pump();
    if (out_)
        out_->pump();
}

bool Console::written() const {
    return err_->queued_bytes() == 0 && (!out_ || out_->queued_bytes() == 0);
}

bool Console::flush(Deadline deadline) {
    if (status_channel_ != nullptr)
        append(*status_channel_, "");
    const bool err_written = err_->flush(deadline);
    return (!out_ || out_->flush(deadline)) && err_written;
}

}  // namespace autolaunch::launcher
