#include "report/output_channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kWriteBytes = 64 * 1024;
// What a pipe or terminal that polls as writable takes without blocking, when it cannot be opened a
// second time.
constexpr std::size_t kPolledWriteBytes = 256;

// write(2) without a SIGPIPE to this process, whatever its disposition: the signal is held back and
// taken away.
ssize_t write_without_sigpipe(int fd, const char* data, std::size_t bytes) {
    sigset_t pipe_signal, before, pending;
    ::sigemptyset(&pipe_signal);
    ::sigaddset(&pipe_signal, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ::sigpending(&pending);
    const bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
    const ssize_t written = ::write(fd, data, bytes);
    const int error = errno;
    if (written < 0 && error == EPIPE && !was_pending) {
        const timespec no_wait{};
        ::sigtimedwait(&pipe_signal, nullptr, &no_wait);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return written;
}

bool reader_is_gone(int error) {
    return error == EPIPE || error == EIO || error == EBADF || error == ECONNRESET;
}

}  // namespace

OutputChannel::OutputChannel(int fd)
    : fd_(fd), kind_(Kind::polled), is_terminal_(::isatty(fd) == 1) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        closed_ = true;
    } else if (S_ISREG(status.st_mode)) {
        kind_ = Kind::file;  // never opened again: that would have an offset of its own
    } else if (S_ISSOCK(status.st_mode)) {
        kind_ = Kind::socket;
    } else {
        const std::string again = "/proc/self/fd/" + std::to_string(fd);
        own_.reset(::open(again.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (own_)
            kind_ = Kind::nonblocking;
    }
}

int OutputChannel::columns() const {
    winsize size{};
    const bool known = is_terminal_ && ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

int OutputChannel::rows() const {
    winsize size{};
    const bool known = is_terminal_ && ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    return known ? size.ws_row : 24;
}

void OutputChannel::append(std::string_view bytes) {
    if (closed_)
        return;
    if (missing_ > 0 && queued_bytes() == 0) {
        const std::string note = "autolaunch: " + std::to_string(missing_) +
                                 " bytes are missing here: the disk was full\n";
        note_bytes_ = note.size();
        queue_ += note;
    }
    queue_ += bytes;
}

// The disk is full, or so; what comes later may find room, and a line says then what is missing.
void OutputChannel::give_up_queue() {
    missing_ += queued_bytes() - std::min(queued_bytes(), written_ == 0 ? note_bytes_ : 0);
    note_bytes_ = 0;
    written_ = queue_.size();
}

long OutputChannel::write_some(const char* data, std::size_t bytes) {
    switch (kind_) {
        case Kind::socket:
            return ::send(fd_, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        case Kind::file:
            return ::write(fd_, data, bytes);
        case Kind::nonblocking:
            return write_without_sigpipe(own_.get(), data, bytes);
        case Kind::polled:
            break;
    }
    pollfd entry{fd_, POLLOUT, 0};
    if (::poll(&entry, 1, 0) < 1) {
        errno = EAGAIN;
        return -1;
    }
    return write_without_sigpipe(fd_, data, std::min(bytes, kPolledWriteBytes));
}

void OutputChannel::pump() {
    while (queued_bytes() > 0) {
        const long written =
            write_some(queue_.data() + written_, std::min(queued_bytes(), kWriteBytes));
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (written < 0) {
            closed_ = reader_is_gone(errno);
            dropped_for_ = dropped_for_ == 0 ? errno : dropped_for_;
            give_up_queue();
            break;
        }
        if (note_bytes_ > 0) {  // it is written, as far as it matters
            note_bytes_ = 0;
            missing_ = 0;
        }
        written_ += static_cast<std::size_t>(written);
    }
    if (written_ == queue_.size() || written_ > kWriteBytes) {
        queue_.erase(0, written_);
        written_ = 0;
    }
}

bool OutputChannel::flush(Deadline deadline) {
    for (;;) {
        pump();
        if (queued_bytes() == 0)
            return true;
        if (deadline.passed())
            return false;
        pollfd entry{fd_, POLLOUT, 0};
        ::poll(&entry, 1, std::min(deadline.poll_timeout_ms(), 50));
    }
}

}  // namespace autolaunch::launcher
