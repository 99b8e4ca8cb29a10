#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>

namespace autolaunch {

/// A moment that somebody else says, in seconds since 1970: 0 for an earlier one, and of the years
/// that the system's clock, which counts nanoseconds in 64 bits, has not, its last ones. "9999" is
/// how some write that there is no end. Pure.
inline std::chrono::system_clock::time_point clock_time(std::int64_t seconds) {
    constexpr std::int64_t kLast = 9'000'000'000;  // of the year 2255: some may be added to it
    return std::chrono::system_clock::time_point(
        std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kLast)));
}

}  // namespace autolaunch
