#include "flight/flight_clock.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace autolaunch::flight {

Clock best_clock() {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool invariant = __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d >> 8 & 1U) != 0;
    if (!invariant)
        return Clock::monotonic_ns;
    try {
        const std::string trusted =
            read_file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
        if ((" " + trusted).find(" tsc") != std::string::npos)
            return Clock::time_stamp_counter;
    } catch (const Error&) {  // no sysfs in this container: nobody vouches for it
    }
#endif
    return Clock::monotonic_ns;
}

Anchor anchor(Clock clock) { return {ticks(clock), monotonic_ns()}; }

}  // namespace autolaunch::flight
