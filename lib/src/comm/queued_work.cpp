#include "comm/queued_work.hpp"

namespace autolaunch {

bool QueuedWork::is_completed() const {
    const std::scoped_lock lock(mutex_);
    return is_completed_;
}

void QueuedWork::wait() {
    std::unique_lock lock(mutex_);
    completed_.wait(lock, [&] { return is_completed_; });
    if (error_)
        std::rethrow_exception(error_);
}

bool QueuedWork::wait_for(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    if (!completed_.wait_for(lock, timeout, [&] { return is_completed_; }))
        return false;
    if (error_)
        std::rethrow_exception(error_);
    return true;
}

void QueuedWork::complete(std::exception_ptr error) {
    {
        const std::scoped_lock lock(mutex_);
        is_completed_ = true;
        error_ = std::move(error);
    }
    completed_.notify_all();
}

}  // namespace autolaunch
