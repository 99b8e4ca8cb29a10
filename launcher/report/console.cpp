#include "report/console.hpp"

#include "report/terminal_text.hpp"
#include "secrets/secrets.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::string_view kEraseRest = "\x1b[K";

bool same_place(int a, int b) {
    struct stat first {
    }, second{};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

}  // namespace

ConsoleOptions ConsoleOptions::from_environment() {
    ConsoleOptions options;
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    options.cursor_control = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
    options.colours = options.cursor_control && (no_color == nullptr || *no_color == '\0');
    return options;
}

Console::Console(ConsoleOptions options)
    : options_(std::move(options)), err_(std::make_unique<OutputChannel>(options_.stderr_fd)) {
    if (!same_place(options_.stdout_fd, options_.stderr_fd))
        out_ = std::make_unique<OutputChannel>(options_.stdout_fd);
    if (!options_.cursor_control)
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
        channel.append(kEraseLine);
        status_shown_ = false;
    }
    channel.append(text);
}

void Console::write_line(OutputStream stream, std::string_view prefix, std::string_view text) {
    OutputChannel& to = channel(stream);
    const TextStyle style{options_.colours && to.is_terminal(), 0};
    std::string line;
    if (!prefix.empty())
        line = (stream == OutputStream::err ? style.yellow(prefix) : style.dim(prefix)) + ' ';
    line += escape_for_terminal(text, style.colours ? Colours::keep : Colours::strip);
    line += '\n';
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
    if (dropped_messages_ > 0)
        append(*err_, fmt::format("… {} messages not shown\n", dropped_messages_));
    dropped_messages_ = 0;
    // Our messages quote job names, paths and errors: nothing but colours passes here either.
    if (text.back() == '\n')
        text.remove_suffix(1);
    const Colours colours = style().colours ? Colours::keep : Colours::strip;
    append(*err_, escape_lines(mask_secrets(text, options_.secrets), colours) + '\n');
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

void Console::draw_status(Clock::time_point now) {
    if (status_channel_ == nullptr || status_channel_->queued_bytes() >= kReadyBelowBytes)
        return;
    if (status_.empty()) {
        append(*status_channel_, "");  // takes away what is there
        return;
    }
    // A line above has taken it away: put it back with that line's own write, so that it does not
    // flicker.
    const bool due = !status_shown_ || (status_changed_ && now - drawn_at_ >= kRedrawInterval);
    if (!due)
        return;
    const int columns =
        status_channel_->columns() - 1;  // the last column would wrap on some terminals
    status_channel_->append(fmt::format("\r{}{}", fit_width(status_, columns), kEraseRest));
    status_shown_ = true;
    status_changed_ = false;
    drawn_at_ = now;
}

void Console::pump(Clock::time_point now) {
    draw_status(now);
    err_->pump();
    if (out_)
        out_->pump();
}

bool Console::flush(Deadline deadline) {
    if (status_channel_ != nullptr)
        append(*status_channel_, "");
    const bool err_written = err_->flush(deadline);
    return (!out_ || out_->flush(deadline)) && err_written;
}

}  // namespace autolaunch::launcher
