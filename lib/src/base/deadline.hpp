#pragma once
#include <algorithm>
#include <chrono>

namespace autolaunch {

/// A point in time by which something must be over. Every wait takes one.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    explicit Deadline(Clock::time_point at) : at_(at) {}
    static Deadline after(Clock::duration duration) { return Deadline(Clock::now() + duration); }

    bool passed() const { return Clock::now() >= at_; }
    Clock::time_point at() const { return at_; }
    Clock::duration remaining() const {
        return std::max(Clock::duration::zero(), at_ - Clock::now());
    }
    /// For poll(2): rounded up, so that a wait never ends just before the deadline.
    int poll_timeout_ms() const {
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
        return static_cast<int>(std::min<long long>(ms, 1'000'000'000));
    }

private:
    Clock::time_point at_;
};

/// Whole milliseconds; 0 where `end` is before `start`.
inline std::chrono::milliseconds elapsed_between(Deadline::Clock::time_point start,
                                                 Deadline::Clock::time_point end) {
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::duration_cast<std::chrono::milliseconds>(end - start));
}

inline std::chrono::milliseconds elapsed_since(Deadline::Clock::time_point start) {
    return elapsed_between(start, Deadline::Clock::now());
}

}  // namespace autolaunch
