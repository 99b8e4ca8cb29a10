#include "checkpoints/byte_progress.hpp"

#include "report/bar.hpp"
#include "report/console.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::milliseconds kRedraw(150);
constexpr int kBarColumns = 30;
constexpr const char* kErase = "\r\x1b[K\x1b[C\x1b[J\r";  // as Console has it

int terminal_columns() {
    winsize size = {};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string byte_progress_line(const std::string& doing, std::uint64_t done, std::uint64_t total,
                               std::chrono::milliseconds elapsed, int columns) {
    const double fraction =
        total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    std::string line = fmt::format("{} {} {:3.0f}% of {}", doing, draw_bar(fraction, kBarColumns),
                                   fraction * 100, format_bytes(total));
    const double seconds = static_cast<double>(elapsed.count()) / 1000;
    if (seconds > 0.2 && done > 0) {
        const double rate = static_cast<double>(done) / seconds;
        line += fmt::format(" · {}/s", format_bytes(static_cast<std::uint64_t>(rate)));
        const double left = static_cast<double>(total - std::min(total, done)) / rate;
        if (fraction < 1)
            line +=
                " · " +
                format_duration(std::chrono::milliseconds(static_cast<long long>(left * 1000))) +
                " left";
    }
    return fit_width(line, columns);
}

ByteProgress::ByteProgress(std::string doing, std::uint64_t total)
    : doing_(escape_for_terminal(doing, Colours::strip)),
      total_(total),
      terminal_(ConsoleOptions::from_environment().cursor_control && ::isatty(STDERR_FILENO) == 1) {
}

ByteProgress::~ByteProgress() {
    if (terminal_)
        std::fputs(kErase, stderr);
}

void ByteProgress::add(std::uint64_t bytes) {
    done_ += bytes;
    const auto now = Clock::now();
    if (!terminal_ || now - drawn_ < kRedraw)
        return;
    drawn_ = now;
    // The cursor stays at the line's beginning, as Console has it: a terminal that shrinks and
    // breaks the line leaves nothing of it behind.
    const int columns = terminal_columns() - 1;
    const Charset charset = charset_of_environment();
    const std::string line =
        in_charset(byte_progress_line(doing_, done_, total_, elapsed(), columns), charset);
    std::fputs((std::string(kErase) + "\x1b[?7l" + fit_width(line, columns, charset) + "\r\x1b[?7h")
                   .c_str(),
               stderr);
}

std::chrono::milliseconds ByteProgress::elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
}

}  // namespace autolaunch::launcher
