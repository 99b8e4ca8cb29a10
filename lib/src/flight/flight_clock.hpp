#pragma once
#include <autolaunch/export.hpp>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include <time.h>

/// The clock of the flight recorder: the processor's time stamp counter where the kernel itself
/// trusts it, since it costs less than half of clock_gettime, which a call would pay twice.
namespace autolaunch::flight {

enum class Clock : std::uint8_t { monotonic_ns, time_stamp_counter };

/// The processor says that its counter is invariant, and the kernel has not struck it off its list.
AUTOLAUNCH_API Clock best_clock();

inline std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t ticks([[maybe_unused]] Clock clock) noexcept {
#if defined(__x86_64__)
    if (clock == Clock::time_stamp_counter)
        return __rdtsc();
#endif
    return monotonic_ns();
}

/// A moment by both clocks.
struct Anchor {
    std::uint64_t ticks = 0, ns = 0;
};
AUTOLAUNCH_API Anchor anchor(Clock clock);

}  // namespace autolaunch::flight
