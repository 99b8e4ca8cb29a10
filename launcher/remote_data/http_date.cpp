#include "remote_data/http_date.hpp"

#include "base/text.hpp"
#include "base/utc_time.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace autolaunch::launcher {

namespace {

std::optional<std::int64_t> nanoseconds_of(const UtcTime& time) {
    const auto moment = on_clock(time);
    return moment ? std::optional<std::int64_t>(
                        std::chrono::nanoseconds(moment->time_since_epoch()).count())
                  : std::nullopt;
}

/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<UtcTime> of_http(std::string_view text) {
    static constexpr std::array<std::string_view, 12> kMonths = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (text.size() != 29 || text.substr(3, 2) != ", " || text[19] != ':' || text[22] != ':' ||
        !text.ends_with(" GMT"))
        return std::nullopt;
    const auto month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
    if (month == kMonths.end())
        return std::nullopt;
    const auto number = [&](std::size_t at, std::size_t digits) {
        return few_digits(text.substr(at, digits)).value_or(-1);
    };
    const auto seconds = utc_seconds(number(12, 4), static_cast<int>(month - kMonths.begin()) + 1,
                                     number(5, 2), number(17, 2), number(20, 2), number(23, 2));
    return seconds ? std::optional(UtcTime{*seconds}) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> server_time_ns(std::string_view text) {
    text = trim(text);
    const auto http = of_http(text);
    // S3's listings: "1994-11-06T08:49:37.123Z"
    const auto time = http ? http : parse_utc(text);
    return time ? nanoseconds_of(*time) : std::nullopt;
}

}  // namespace autolaunch::launcher
