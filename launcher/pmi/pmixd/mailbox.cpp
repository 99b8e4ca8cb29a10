#include "pmi/pmixd/mailbox.hpp"

#include <autolaunch/error.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace autolaunch::launcher {

Mailbox::Mailbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_)
        throw SystemError(errno, "make an eventfd");
}

void Mailbox::post(std::function<void()> work) {
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(work));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written =
        ::write(wake_.get(), &one, sizeof one);  // can only fail when it is readable
}

void Mailbox::work_off() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof count);
    std::deque<std::function<void()>> taken;
    {
        const std::lock_guard lock(mutex_);
        taken.swap(waiting_);
    }
    for (const auto& work : taken)
        work();
}

}  // namespace autolaunch::launcher
