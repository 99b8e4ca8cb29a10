#include "checkpoint/drain/rate_limit.hpp"

#include <algorithm>
#include <thread>

namespace autolaunch {

namespace {

constexpr std::chrono::milliseconds kBurst(100), kGlance(50);

}  // namespace

RateLimit::Clock::time_point RateLimit::pass(std::uint64_t bytes, Clock::time_point now) {
    if (rate_ == 0)
        return now;
    const std::chrono::duration<double> time(static_cast<double>(bytes) /
                                             static_cast<double>(rate_));
    const std::lock_guard lock(mutex_);
    free_ = std::max(free_, now - kBurst) + std::chrono::duration_cast<Clock::duration>(time);
    return std::max(free_, now);
}

void RateLimit::take(std::uint64_t bytes, const std::function<bool()>& stop) {
    const Clock::time_point then = pass(bytes, Clock::now());
    while (!stop()) {
        const auto left = then - Clock::now();
        if (left <= Clock::duration::zero())
            return;
        std::this_thread::sleep_for(std::min<Clock::duration>(left, kGlance));
    }
}

}  // namespace autolaunch
