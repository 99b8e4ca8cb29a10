#include "sampler/background.hpp"

#include "base/ask_in_time.hpp"

#include <utility>

namespace autolaunch::launcher {

Background::Background(std::size_t most_waiting) : most_(most_waiting) {}

void Background::run(const std::shared_ptr<State>& state) {
    for (std::unique_lock lock(state->mutex);;) {
        state->changed.wait(lock, [&] { return !state->waiting.empty(); });
        const std::function<void()> work = std::move(state->waiting.front());
        state->waiting.pop_front();
        state->busy_since = Clock::now();
        lock.unlock();
        work();
        lock.lock();
        state->busy_since.reset();
        state->changed.notify_all();
    }
}

bool Background::give(std::function<void()> work) {
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting.size() >= most_)
        return false;
    state_->waiting.push_back(std::move(work));
    if (!std::exchange(state_->started, true))
        start_detached([state = state_] { run(state); });
    state_->changed.notify_all();
    return true;
}

std::optional<Background::Clock::duration> Background::busy_for() const {
    const std::lock_guard lock(state_->mutex);
    return state_->busy_since ? std::optional(Clock::now() - *state_->busy_since) : std::nullopt;
}

bool Background::finish(std::chrono::milliseconds time) {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(
        lock, time, [this] { return state_->waiting.empty() && !state_->busy_since; });
}

}  // namespace autolaunch::launcher
