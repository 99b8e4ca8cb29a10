#pragma once
#include <chrono>
#include <thread>

namespace autolaunch {

/// The pauses of a loop that waits: none at first, for what takes microseconds, then up to half a millisecond.
class Backoff {
public:
    void pause() {
        if (++rounds_ < kYields) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(rounds_ < kYields + 100 ? 20 : 500));
        }
    }
    int rounds() const noexcept { return rounds_; }

private:
    static constexpr int kYields = 200;
    int rounds_ = 0;
};

}  // namespace autolaunch
