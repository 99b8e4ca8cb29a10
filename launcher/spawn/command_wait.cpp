#include "spawn/command_wait.hpp"

#include "base/unique_fd.hpp"

#include <fcntl.h>

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

void CommandWait::begin(int fd, std::function<bool()> advance, std::chrono::milliseconds patience,
                        std::function<void(bool)> over) {
    stop();
    advance_ = std::move(advance);
    over_ = std::move(over);
    // The command closes its descriptor when it is over: the event loop needs one of its own.
    UniqueFd answer(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!answer)
        return end(false);
    std::error_code error;
    answer_.assign(answer.get(), error);
    if (error)
        return end(false);
    answer.release();
    timer_.expires_after(patience);
    timer_.async_wait([this](const std::error_code& cancelled) {
        if (!cancelled)
            end(false);
    });
    await();
}

void CommandWait::await() {
    answer_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const std::error_code& error) {
                           if (error || !over_)
                               return;
                           if (advance_())
                               end(true);
                           else
                               await();
                       });
}

void CommandWait::end(bool answered) {
    const auto over = std::exchange(over_, {});
    stop();
    if (over)
        over(answered);
}

void CommandWait::stop() {
    over_ = {};
    timer_.cancel();
    std::error_code ignored;
    if (answer_.is_open())
        answer_.close(ignored);
}

}  // namespace autolaunch::launcher
