#include "allocation/slurm_time.hpp"

#include "base/text.hpp"

#include <array>
#include <cstddef>

namespace autolaunch::launcher {
namespace {

bool parse_count(std::string_view text, long long& value) {
    constexpr std::size_t kMostDigits = 9;
    return !text.empty() && text.size() <= kMostDigits &&
           text.find_first_not_of("0123456789") == std::string_view::npos &&
           parse_integer(text, value);
}

}  // namespace

std::optional<std::chrono::seconds> parse_slurm_time(std::string_view text) {
    text = trim(text);
    const std::size_t dash = text.find('-');
    const bool has_days = dash != std::string_view::npos;
    long long days = 0;
    if (has_days && !parse_count(text.substr(0, dash), days))
        return std::nullopt;
    const auto parts = split(has_days ? text.substr(dash + 1) : text, ':');
    if (parts.size() > 3)
        return std::nullopt;
    // After days the first part is hours; else three parts are hours, minutes, seconds, and fewer
    // begin with minutes.
    constexpr std::array<long long, 3> kSeconds = {3600, 60, 1};
    std::size_t unit = has_days || parts.size() == 3 ? 0 : 1;
    long long seconds = days * 86'400;
    for (const auto& part : parts) {
        long long value = 0;
        if (!parse_count(part, value))
            return std::nullopt;
        seconds += value * kSeconds[unit++];
    }
    return std::chrono::seconds(seconds);
}

}  // namespace autolaunch::launcher
