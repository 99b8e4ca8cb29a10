#include "report/units.hpp"

#include <fmt/format.h>

#include <cmath>

namespace autolaunch::launcher {

std::string format_duration(std::chrono::milliseconds duration) {
    const long long ms = duration.count();
    const long long seconds = (ms + 500) / 1000;
    if (ms == 0)
        return "under 1 ms";
    if (ms < 100)
        return fmt::format("{} ms", ms);
    if (ms < 9'950)
        return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
    if (seconds < 120)
        return fmt::format("{} s", seconds);
    if (seconds < 7'200)
        return fmt::format("{} min {} s", seconds / 60, seconds % 60);
    if (seconds < 172'800)
        return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
    return fmt::format("{} d {} h", seconds / 86'400, seconds / 3600 % 24);
}

std::string format_rate(double number) {
    constexpr const char* kSuffixes[] = {"", "k", "M", "G", "T", "P"};
    std::size_t suffix = 0;
    while (std::abs(number) >= 999.5 && suffix + 1 < std::size(kSuffixes)) {
        number /= 1000;
        ++suffix;
    }
    return fmt::format("{:.{}f}{}", number, std::abs(number) < 9.95 ? 1 : 0, kSuffixes[suffix]);
}

std::string format_bytes(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
    if (bytes < 1000)
        return fmt::format("{} B", bytes);
    double number = static_cast<double>(bytes) / 1000;
    std::size_t unit = 0;
    while (number >= 999.95 && unit + 1 < std::size(kUnits)) {
        number /= 1000;
        ++unit;
    }
    return fmt::format("{:.1f} {}", number, kUnits[unit]);
}

}  // namespace autolaunch::launcher
