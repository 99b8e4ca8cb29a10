#include "input/input_reader.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool is_a_socket(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

// The kernel lets a process open what it has open already, if its mode allows it: then it is a
// description of its own. Empty where it does not, as of another user's pipe.
UniqueFd opened_again(int fd) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool would_wait(int fd) {
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) == 0;
}

}  // namespace

InputReader::InputReader(asio::io_context& io, int fd)
    : fd_(fd),
      kind_(kind_of_input(fd)),
      is_socket_(is_a_socket(fd)),
      start_(kind_ == InputKind::file ? ::lseek(fd, 0, SEEK_CUR) : 0),
      offset_(start_),
      ready_(io) {
    if (kind_ != InputKind::file && !is_socket_)
        own_ = opened_again(fd);
    UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
    if (!set)
        throw SystemError(errno, "watch stdin");
    epoll_event event{};
    event.events = EPOLLIN;
    // Files and some devices cannot be waited for, and need not be.
    always_ready_ = ::epoll_ctl(set.get(), EPOLL_CTL_ADD, own_ ? own_.get() : fd, &event) != 0;
    ready_.assign(set.release());
}

ssize_t InputReader::read_once(char* bytes, std::size_t most) {
    if (kind_ == InputKind::file)
        return ::pread(fd_, bytes, most, offset_);
    if (is_socket_)
        return ::recv(fd_, bytes, most, MSG_DONTWAIT);
    if (own_)
        return ::read(own_.get(), bytes, most);
    if (!always_ready_ && would_wait(fd_)) {
        errno = EAGAIN;
        return -1;
    }
    return ::read(fd_, bytes, most);
}

InputState InputReader::read(std::string& into, std::size_t most) {
    const std::size_t before = into.size();
    into.resize(before + most);
    ssize_t count = 0;
    do {
        count = read_once(into.data() + before, most);
    } while (count < 0 && errno == EINTR);
    const int error = count < 0 ? errno : 0;
    into.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0) {
        offset_ += count;
        return InputState::bytes;
    }
    if (error == EAGAIN || error == EWOULDBLOCK)
        return InputState::nothing_yet;
    if (error != 0)
        failure_ = std::strerror(error);
    return InputState::ended;
}

void InputReader::wait(std::function<void()> on_ready) {
    const auto call = [on_ready = std::move(on_ready), alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            on_ready();
    };
    ready_.cancel();
    if (always_ready_)
        return asio::post(ready_.get_executor(), call);
    ready_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [call](const std::error_code& error) {
                          if (!error)
                              call();
                      });
}

}  // namespace autolaunch::launcher
