#include "spec/units.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Takes a decimal number without sign or exponent off the front of `text`.
std::optional<double> take_number(std::string_view& text) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    double number = 0;
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + end, number, std::chars_format::fixed);
    if (end == 0 || error != std::errc{} || stop != text.data() + end)
        return std::nullopt;
    text.remove_prefix(end);
    return number;
}

std::string_view take_letters(std::string_view& text) {
    const std::size_t end = std::min(text.find_first_of("0123456789."), text.size());
    const std::string_view letters = trim(text.substr(0, end));
    text.remove_prefix(end);
    return letters;
}

std::optional<double> milliseconds_of(std::string_view unit) {
    constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
        {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};
    for (const auto& [name, factor] : kUnits) {
        if (unit == name)
            return factor;
    }
    return std::nullopt;
}

std::optional<double> bytes_of(std::string_view unit) {
    if (unit.empty() || unit == "B")
        return 1.0;
    constexpr std::string_view kPrefixes = "KMGTP";
    const char prefix = unit[0] == 'k' ? 'K' : unit[0];
    const std::size_t power = kPrefixes.find(prefix);
    if (power == std::string_view::npos)
        return std::nullopt;
    const std::string_view rest = unit.substr(1);
    if (rest != "B" && rest != "iB" && !rest.empty())
        return std::nullopt;
    return std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power) + 1);
}

bool are_numbers(const std::vector<std::string>& parts) {
    for (const auto& part : parts) {
        if (part.empty() || part.size() > 9 ||
            part.find_first_not_of("0123456789") != std::string::npos)
            return false;
    }
    return true;
}

}  // namespace

std::optional<std::chrono::milliseconds> duration_from(std::string_view text) {
    constexpr double kTenYears = 10 * 366 * 86400e3;
    text = trim(text);
    if (text.empty())
        return std::nullopt;
    double total = 0;
    for (bool first = true; !text.empty(); first = false) {
        const auto number = take_number(text);
        if (!number)
            return std::nullopt;
        if (text.empty() && first) {
            total = *number * 1e3;
            break;
        }
        const auto factor = milliseconds_of(take_letters(text));
        if (!factor)
            return std::nullopt;
        total += *number * *factor;
    }
    if (!(total <= kTenYears))
        return std::nullopt;
    return std::chrono::milliseconds(std::llround(total));
}

std::optional<std::int64_t> bytes_from(std::string_view text) {
    text = trim(text);
    const auto number = take_number(text);
    if (!number)
        return std::nullopt;
    const auto factor = bytes_of(trim(text));
    if (!factor)
        return std::nullopt;
    const double bytes = *number * *factor;
    if (!(bytes < 9.2e18))
        return std::nullopt;
    return static_cast<std::int64_t>(bytes);
}

std::optional<std::int64_t> count_from(std::string_view text) {
    std::string digits(trim(text));
    std::erase(digits, '_');
    std::string_view rest = digits;
    const auto number = take_number(rest);
    if (!number)
        return std::nullopt;
    rest = trim(rest);
    constexpr std::string_view kUnits = "KMBT";
    double factor = 1;
    if (!rest.empty()) {
        const char unit = rest[0] == 'k' ? 'K' : rest[0] == 'G' ? 'B' : rest[0];
        const std::size_t power = kUnits.find(unit);
        if (rest.size() != 1 || power == std::string_view::npos)
            return std::nullopt;
        factor = std::pow(1000.0, static_cast<double>(power) + 1);
    }
    const double count = *number * factor;
    if (!(count >= 1 && count < 9.2e18))
        return std::nullopt;
    return std::llround(count);
}

bool is_slurm_time_limit(std::string_view text) {
    if (text == "UNLIMITED" || text == "INFINITE")
        return true;
    const std::size_t dash = text.find('-');
    if (dash == std::string_view::npos) {
        const auto parts = split(text, ':');
        return parts.size() <= 3 && are_numbers(parts);
    }
    const auto parts = split(text.substr(dash + 1), ':');
    return are_numbers({std::string(text.substr(0, dash))}) && parts.size() <= 3 &&
           are_numbers(parts);
}

bool is_binding_entry(std::string_view text) {
    text = trim(text);
    for (const std::string_view prefix : {"numa:", "core:"})
        if (text.starts_with(prefix)) {
            text.remove_prefix(prefix.size());
            break;
        }
    const auto is_number = [](std::string_view digits) {
        long long number = 0;
        return !digits.empty() &&
               digits.find_first_not_of("0123456789") == std::string_view::npos &&
               parse_integer(digits, number);
    };
    const auto parts = split(text, ',');
    return std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
        const std::size_t dash = part.find('-');
        return is_number(part.substr(0, dash)) &&
               (dash == std::string_view::npos || is_number(part.substr(dash + 1)));
    });
}

}  // namespace autolaunch::launcher
