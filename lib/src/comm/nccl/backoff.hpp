#pragma once
#include <chrono>
#include <mutex>
#include <thread>

namespace autolaunch {

/// The pauses of a loop that waits: none at first, for what takes microseconds, then up to half a
/// millisecond.
class Backoff {
public:
    void pause() {
        if (++rounds_ < kYields) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(
                std::chrono::microseconds(rounds_ < kYields + 100 ? 20 : 500));
        }
    }
    int rounds() const noexcept { return rounds_; }

private:
    static constexpr int kYields = 200;
    int rounds_ = 0;
};

/// Owns the mutex, unless somebody held it for all of `longest`. (ThreadSanitizer does not know
/// std::timed_mutex's way.)
inline std::unique_lock<std::mutex> lock_within(std::mutex& mutex,
                                                std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex, std::try_to_lock);
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!lock.owns_lock() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        lock.try_lock();
    }
    return lock;
}

}  // namespace autolaunch
