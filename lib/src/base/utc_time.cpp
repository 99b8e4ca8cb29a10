#include "base/utc_time.hpp"

#include <cstddef>

namespace autolaunch {

std::optional<int> few_digits(std::string_view text) {
    if (text.empty() || text.size() > 9)
        return std::nullopt;
    int value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9')
            return std::nullopt;
        value = value * 10 + (c - '0');
    }
    return value;
}

std::optional<std::chrono::sys_seconds> utc_seconds(int year, int month, int day, int hour,
                                                    int minute, int second) {
    using namespace std::chrono;
    if (month < 1 || day < 1)
        return std::nullopt;
    const year_month_day date{std::chrono::year(year), std::chrono::month(unsigned(month)),
                              std::chrono::day(unsigned(day))};
    if (!date.ok() || year < 0 || year > 9999 || hour < 0 || hour > 23 || minute < 0 ||
        minute > 59 || second < 0 || second > 60)
        return std::nullopt;
    return sys_days(date) + hours(hour) + minutes(minute) + seconds(second);
}

std::optional<UtcTime> parse_utc(std::string_view text) {
    constexpr std::string_view kForm = "0000-00-00T00:00:00";
    if (text.size() <= kForm.size() || text.back() != 'Z')
        return std::nullopt;
    for (const std::size_t at : {4, 7, 10, 13, 16})
        if (text[at] != kForm[at])
            return std::nullopt;
    const auto number = [&](std::size_t at, std::size_t digits) {
        return few_digits(text.substr(at, digits)).value_or(-1);
    };
    const auto seconds = utc_seconds(number(0, 4), number(5, 2), number(8, 2), number(11, 2),
                                     number(14, 2), number(17, 2));
    std::string_view fraction = text.substr(kForm.size(), text.size() - kForm.size() - 1);
    if (!seconds || fraction.empty())
        return seconds ? std::optional(UtcTime{*seconds}) : std::nullopt;
    auto count = fraction.front() == '.' ? few_digits(fraction.substr(1)) : std::nullopt;
    if (!count)
        return std::nullopt;
    for (std::size_t digits = fraction.size() - 1; digits < 9; ++digits)
        *count *= 10;
    return UtcTime{*seconds, std::chrono::nanoseconds(*count)};
}

std::optional<std::chrono::system_clock::time_point> on_clock(const UtcTime& time) {
    using namespace std::chrono;
    if (time.seconds < sys_days(year(1970) / 1 / 1) || time.seconds >= sys_days(year(2262) / 1 / 1))
        return std::nullopt;
    return system_clock::time_point(time.seconds) + time.fraction;
}

}  // namespace autolaunch
