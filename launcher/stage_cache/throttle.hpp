#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace autolaunch::launcher {

/// When bytes may come at so many a second. What was not used is lost, but for a moment: after the
/// machine stood still nothing comes faster than before. Pure.
class Pace {
public:
    using Clock = std::chrono::steady_clock;
    /// A clock and a scheduler are not exact, and a rate should be met all the same.
    static constexpr auto kMadeUp = std::chrono::milliseconds(20);

    explicit Pace(std::int64_t bytes_per_second) : rate_(bytes_per_second) {}
    /// From when on the next ones may be used; to be asked for those behind them at that time.
    Clock::time_point next(std::int64_t bytes, Clock::time_point now) {
        using namespace std::chrono;
        free_at_ = std::max(free_at_, now - kMadeUp) +
                   duration_cast<Clock::duration>(
                       duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_)));
        return free_at_;
    }

private:
    const std::int64_t rate_;
    Clock::time_point free_at_{};
};

/// So many bytes a second, of any number of threads, each in its turn; 0: as fast as it goes.
/// Threads: any. Blocks: take(), until its bytes may come or somebody gives up.
class Throttle {
public:
    explicit Throttle(std::int64_t bytes_per_second)
        : is_open_(bytes_per_second <= 0), pace_(bytes_per_second) {}

    void take(std::int64_t bytes) {
        std::unique_lock lock(mutex_);
        const std::uint64_t turn = drawn_++;
        changed_.wait(lock, [&] { return is_open_ || turn == at_turn_; });
        if (!is_open_)
            changed_.wait_until(lock, pace_.next(bytes, Pace::Clock::now()),
                                [&] { return is_open_; });
        ++at_turn_;
        changed_.notify_all();
    }
    /// Nobody waits any more: what comes is of no use.
    void give_up() {
        const std::lock_guard lock(mutex_);
        is_open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_open_;
    std::uint64_t drawn_ = 0, at_turn_ = 0;
    Pace pace_;
};

}  // namespace autolaunch::launcher
