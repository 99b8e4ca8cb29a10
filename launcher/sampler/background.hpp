#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace autolaunch::launcher {

/// Does work in a thread of its own, one thing after the other, which may never come back: a driver
/// or a file system hangs in the kernel. The thread ends with the process.
///
/// Owner: the sampler. Threads: any. Blocks: finish() alone.
class Background {
public:
    using Clock = std::chrono::steady_clock;

    explicit Background(std::size_t most_waiting);
    /// False where so much waits already that this is not taken.
    bool give(std::function<void()> work);
    /// How long the work that is being done has taken; nothing: none is.
    std::optional<Clock::duration> busy_for() const;
    /// Until all that was given is done, or this has passed: whether it is.
    bool finish(std::chrono::milliseconds time);

private:
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<std::function<void()>> waiting;
        std::optional<Clock::time_point> busy_since;
        bool started = false;
    };
    static void run(const std::shared_ptr<State>& state);

    std::size_t most_;
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace autolaunch::launcher
