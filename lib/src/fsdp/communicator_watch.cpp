#include "fsdp/communicator_watch.hpp"

namespace autolaunch::fsdp {

void CommunicatorWatch::watch(const Communicator& communicator) {
    const std::scoped_lock lock(mutex_);
    communicators_.push_back(communicator);
}

void CommunicatorWatch::check() const {
    const std::scoped_lock lock(mutex_);
    if (failure_)
        std::rethrow_exception(failure_);
    for (const Communicator& communicator : communicators_)
        communicator.check();
}

void CommunicatorWatch::close() noexcept {
    try {
        check();
    } catch (...) {
        const std::scoped_lock lock(mutex_);
        failure_ = std::current_exception();
    }
    std::vector<Communicator> gone;  // they end after the lock
    const std::scoped_lock lock(mutex_);
    gone.swap(communicators_);
}

}  // namespace autolaunch::fsdp
