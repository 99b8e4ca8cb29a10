#include "comm/work_state.hpp"

namespace autolaunch {

Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

bool Work::is_completed() const { return !state_ || state_->is_completed(); }

void Work::wait() {
    if (state_)
        state_->wait();
}

bool Work::wait_for(std::chrono::nanoseconds timeout) {
    return !state_ || state_->wait_for(timeout);
}

}  // namespace autolaunch
