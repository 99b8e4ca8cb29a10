#include "logs/rank_terminals.hpp"

#include "base/file_io.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kTurns = 16;  // reads of one terminal before others have their turn
// Of the console's width, for the prefix: a bar that fills its terminal fits there, too.
constexpr int kPrefixColumns = 20, kFewestColumns = 40;

[[noreturn]] void throw_no_terminal(int error) {
    throw SystemError(error, "open a terminal for a rank",
                      "logging.stdio: file does without; /dev/ptmx and the limit "
                      "/proc/sys/kernel/pty/max are what terminals need");
}

winsize size_for_ranks() {
    winsize size{};
    for (const int ours : {STDERR_FILENO, STDOUT_FILENO})
        if (::ioctl(ours, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
            break;
    if (size.ws_col == 0)
        size = {.ws_row = 24, .ws_col = 80 + kPrefixColumns, .ws_xpixel = 0, .ws_ypixel = 0};
    const int columns = std::max(size.ws_col - kPrefixColumns, kFewestColumns);
    size.ws_col = static_cast<unsigned short>(columns);
    return size;
}

// Bytes go through unchanged: no echo, and a newline stays one.
void make_plain(int fd) {
    termios settings{};
    if (::tcgetattr(fd, &settings) != 0)
        throw_no_terminal(errno);
    ::cfmakeraw(&settings);
    if (::tcsetattr(fd, TCSANOW, &settings) != 0)
        throw_no_terminal(errno);
}

}  // namespace

RankTerminals::Ends RankTerminals::add_rank(const RankFiles& files) {
    Ends ends;
    ends.out = open(files.out, files.stdout_path);
    ends.err = open(files.err, files.stderr_path);
    return ends;
}

UniqueFd RankTerminals::open(const UniqueFd& log, const std::string& path) {
    UniqueFd screen(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (!screen || ::grantpt(screen.get()) != 0 || ::unlockpt(screen.get()) != 0)
        throw_no_terminal(errno);
    std::array<char, 64> name{};
    if (const int error = ::ptsname_r(screen.get(), name.data(), name.size()); error != 0)
        throw_no_terminal(error);
    UniqueFd user(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!user)
        throw_no_terminal(errno);
    make_plain(user.get());
    const winsize size = size_for_ranks();
    ::ioctl(user.get(), TIOCSWINSZ, &size);
    UniqueFd copy(::fcntl(log.get(), F_DUPFD_CLOEXEC, 3));
    if (!copy)
        throw SystemError(errno, "keep " + path + " open");
    terminals_.push_back({asio::posix::stream_descriptor(io_), std::move(copy), path});
    terminals_.back().screen.assign(screen.release());
    copy_later(terminals_.back());
    return user;
}

void RankTerminals::copy_later(Terminal& terminal) {
    terminal.screen.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [this, &terminal, alive = std::weak_ptr(alive_)](const std::error_code& error) {
            if (!error && !alive.expired() && copy(terminal))
                copy_later(terminal);
        });
}

// False when nobody can write to it any more.
bool RankTerminals::copy(Terminal& terminal) {
    if (!terminal.screen.is_open())
        return false;
    std::array<char, kReadBytes> buffer;
    for (int turn = 0; turn < kTurns; ++turn) {
        const ssize_t got = ::read(terminal.screen.native_handle(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0) {
            terminal.screen.close();
            return false;
        }
        const auto bytes = static_cast<std::size_t>(got);
        try {
            write_all(terminal.log.get(), {buffer.data(), bytes}, terminal.path);
        } catch (const SystemError& error) {
            terminal.lost += bytes;
            terminal.error = error.error_number();
        }
    }
    return true;
}

void RankTerminals::copy_all() {
    for (Terminal& terminal : terminals_)
        copy(terminal);
}

std::string RankTerminals::lost() const {
    std::uint64_t bytes = 0;
    const Terminal* first = nullptr;
    for (const Terminal& terminal : terminals_) {
        bytes += terminal.lost;
        if (first == nullptr && terminal.lost > 0)
            first = &terminal;
    }
    if (first == nullptr)
        return {};
    return format_bytes(bytes) + " of what ranks printed could not be written: " + first->path +
           ": " + std::strerror(first->error);
}

}  // namespace autolaunch::launcher
