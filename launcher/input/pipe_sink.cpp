#include "input/pipe_sink.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

PipeSink::PipeSink(asio::io_context& io, std::function<void()> on_room)
    : pipe_(io), on_room_(std::move(on_room)) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "open a pipe for a rank's stdin");
    reading_end_.reset(ends[0]);
    UniqueFd writing_end(ends[1]);
    ::fcntl(writing_end.get(), F_SETFL, O_NONBLOCK);
    pipe_.assign(writing_end.release());
}

void PipeSink::close() {
    reading_end_.reset();
    close_writing_end();
}

// What was written stays in the pipe, for a rank that may not have been started yet.
void PipeSink::close_writing_end() {
    std::error_code ignored;
    pipe_.close(ignored);
    backlog_ = {};
    offset_ = 0;
}

void PipeSink::put(std::string_view bytes) {
    if (is_gone())
        return;
    backlog_.append(bytes);
    if (!waiting_)
        write();
}

void PipeSink::finish() {
    finished_ = true;
    if (backlog_.empty())
        close_writing_end();
}

void PipeSink::write() {
    while (offset_ < backlog_.size()) {
        const ssize_t count =
            ::write(pipe_.native_handle(), backlog_.data() + offset_, backlog_.size() - offset_);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return write_later();
        if (count < 0)
            return close_writing_end();  // EPIPE: the rank reads no more
        offset_ += static_cast<std::size_t>(count);
    }
    backlog_.clear();
    offset_ = 0;
    if (finished_)
        close_writing_end();
}

void PipeSink::write_later() {
    backlog_.erase(0, std::exchange(offset_, 0));
    waiting_ = true;
    pipe_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
                         if (error || alive.expired())
                             return;
                         waiting_ = false;
                         write();
                         if (has_room() || is_gone())
                             on_room_();
                     });
}

}  // namespace autolaunch::launcher
