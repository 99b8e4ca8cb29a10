#pragma once
#include <chrono>
#include <optional>
#include <string_view>

namespace autolaunch {

/// A moment that somebody else says, of the years 0 to 9999: more than the system's clock has.
struct UtcTime {
    std::chrono::sys_seconds seconds;
    std::chrono::nanoseconds fraction{0};
};

/// A date of the calendar and a time of day, month and day from 1, the second up to 60. Pure.
std::optional<std::chrono::sys_seconds> utc_seconds(int year, int month, int day, int hour,
                                                    int minute, int second);

/// "2026-11-29T20:53:39Z", or with one to nine digits of a fraction: "2026-11-29T20:53:39.123Z".
/// Nothing for any other text. Pure.
std::optional<UtcTime> parse_utc(std::string_view text);

/// Where the system's clock, which counts nanoseconds in 64 bits, has that moment; nothing for one
/// before 1970 or after 2261. Pure.
std::optional<std::chrono::system_clock::time_point> on_clock(const UtcTime& time);

/// The digits of a text as a number; nothing for any other character, none, or more than nine.
/// Pure.
std::optional<int> few_digits(std::string_view text);

}  // namespace autolaunch
