#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace autolaunch {

/// A token bucket: bytes may pass at a rate, and after a pause as many at once as a tenth of a
/// second lets through. Owner: a Drain. Threads: any. Blocks:
/// take().
class RateLimit {
public:
    using Clock = std::chrono::steady_clock;

    /// 0: everything passes at once.
    explicit RateLimit(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

    /// When so many bytes that are asked for at `now` have passed. They count as passed.
    Clock::time_point pass(std::uint64_t bytes, Clock::time_point now);
    /// Returns then; sooner once `stop` says so, which is asked a few times a second.
    void take(std::uint64_t bytes, const std::function<bool()>& stop);

private:
    std::uint64_t rate_;
    std::mutex mutex_;
    Clock::time_point free_ = {};  ///< what is asked for then waits for nothing before it
};

}  // namespace autolaunch
