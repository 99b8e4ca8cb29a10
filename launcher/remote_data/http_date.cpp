#include "remote_data/http_date.hpp"

#include "base/text.hpp"

#include <array>
#include <ctime>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kFirstYear = 1970, kLastYear = 2242;  // whose nanoseconds have a place in 64 bits

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
    if (at + count > text.size())
        return std::nullopt;
    int value = 0;
    for (const char c : text.substr(at, count)) {
        if (c < '0' || c > '9')
            return std::nullopt;
        value = value * 10 + (c - '0');
    }
    return value;
}

std::optional<std::int64_t> seconds_of(std::string_view day, std::size_t year_at, int month,
                                       std::size_t day_at, std::string_view time) {
    const auto year = digits(day, year_at, 4), date = digits(day, day_at, 2);
    const auto hour = digits(time, 0, 2), minute = digits(time, 3, 2), second = digits(time, 6, 2);
    if (!year || !date || !hour || !minute || !second || month < 0 || *year < kFirstYear ||
        *year > kLastYear || time[2] != ':' || time[5] != ':' || *date < 1 || *date > 31 ||
        *hour > 23 || *minute > 59 || *second > 60)
        return std::nullopt;
    std::tm parts{};
    parts.tm_year = *year - 1900;
    parts.tm_mon = month;
    parts.tm_mday = *date;
    parts.tm_hour = *hour;
    parts.tm_min = *minute;
    parts.tm_sec = *second;
    return ::timegm(&parts);
}

/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<std::int64_t> of_http(std::string_view text) {
    static constexpr std::array<std::string_view, 12> kMonths = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (text.size() != 29 || text.substr(3, 2) != ", " || !text.ends_with(" GMT"))
        return std::nullopt;
    int month = -1;
    for (std::size_t i = 0; i < kMonths.size(); ++i)
        if (text.substr(8, 3) == kMonths[i])
            month = static_cast<int>(i);
    const auto seconds = seconds_of(text, 12, month, 5, text.substr(17, 8));
    return seconds ? std::optional(*seconds * kSecond) : std::nullopt;
}

/// "1994-11-06T08:49:37.123Z"
std::optional<std::int64_t> of_s3(std::string_view text) {
    if (text.size() < 20 || text.back() != 'Z' || text[4] != '-' || text[7] != '-' ||
        text[10] != 'T')
        return std::nullopt;
    const auto month = digits(text, 5, 2);
    if (!month || *month < 1 || *month > 12)
        return std::nullopt;
    const auto seconds = seconds_of(text, 0, *month - 1, 8, text.substr(11, 8));
    if (!seconds)
        return std::nullopt;
    std::int64_t ns = 0;
    if (text.size() > 20) {
        const std::size_t count = text.size() - 21;
        const auto fraction = digits(text, 20, count);
        if (text[19] != '.' || count == 0 || count > 9 || !fraction)
            return std::nullopt;
        ns = *fraction;
        for (std::size_t i = count; i < 9; ++i)
            ns *= 10;
    }
    return *seconds * kSecond + ns;
}

}  // namespace

std::optional<std::int64_t> server_time_ns(std::string_view text) {
    text = trim(text);
    const auto http = of_http(text);
    return http ? http : of_s3(text);
}

}  // namespace autolaunch::launcher
