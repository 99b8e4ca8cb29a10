#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

namespace autolaunch::launcher {

/// So many bytes a second, of any number of threads; 0: as fast as it goes. Blocks: take(), until
/// its bytes may come.
class Throttle {
public:
    explicit Throttle(std::int64_t bytes_per_second) : rate_(bytes_per_second) {}
    void take(std::int64_t bytes) {
        if (rate_ <= 0)
            return;
        using namespace std::chrono;
        steady_clock::time_point until;
        {
            const std::lock_guard lock(mutex_);
            free_at_ = std::max(free_at_, steady_clock::now()) +
                       duration_cast<steady_clock::duration>(duration<double>(
                           static_cast<double>(bytes) / static_cast<double>(rate_)));
            until = free_at_;
        }
        std::this_thread::sleep_until(until);
    }

private:
    const std::int64_t rate_;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point free_at_{};
};

}  // namespace autolaunch::launcher
