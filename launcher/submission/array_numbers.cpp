#include "submission/array_numbers.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr long long kMostNumber = 4'000'000;  // the most that MaxArraySize can allow

std::optional<long long> plain_number(std::string_view text) {
    long long value = 0;
    const bool digits =
        !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    return digits && parse_integer(text, value) && value <= kMostNumber ? std::optional(value)
                                                                        : std::nullopt;
}

struct Range {
    long long first = 0, last = 0, step = 1;
};

std::optional<Range> range_from(std::string_view text) {
    const std::size_t colon = text.find(':'), dash = text.substr(0, colon).find('-');
    const auto step =
        colon == std::string_view::npos ? std::optional(1LL) : plain_number(text.substr(colon + 1));
    const std::string_view range = text.substr(0, colon);
    const auto first = plain_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : plain_number(range.substr(dash + 1));
    const bool stepped = colon != std::string_view::npos && dash == std::string_view::npos;
    if (!first || !last || !step || *step < 1 || *last < *first || stepped)
        return std::nullopt;
    return Range{*first, *last, *step};
}

bool take_range(std::string_view text, ArrayNumbers& numbers) {
    const auto range = range_from(text);
    if (!range)
        return false;
    const long long steps = (range->last - range->first) / range->step;
    numbers.count += steps + 1;
    numbers.highest = std::max(numbers.highest, range->first + steps * range->step);
    return true;
}

}  // namespace

std::optional<ArrayNumbers> parse_array(std::string_view text, std::string& why) {
    ArrayNumbers numbers;
    const std::size_t percent = text.find('%');
    if (percent != std::string_view::npos) {
        numbers.throttle = plain_number(text.substr(percent + 1));
        if (numbers.throttle.value_or(0) < 1) {
            why = "expects a number behind %: so many at the same time";
            return std::nullopt;
        }
    }
    for (const std::string& part : split(text.substr(0, percent), ','))
        if (!take_range(part, numbers)) {
            why = "expects numbers up to 4000000 and ranges, as in 0-9 or 1,3,5-20:5; found \"" +
                  part + '"';
            return std::nullopt;
        }
    return numbers;
}

std::vector<long long> list_array(std::string_view text) {
    constexpr std::size_t kMost = 100'000;
    std::vector<long long> numbers;
    for (const std::string& part : split(text.substr(0, text.find('%')), ',')) {
        const auto range = range_from(part);
        if (!range)
            return {};
        // Those that come again count, too: no text is to be work for minutes.
        if ((range->last - range->first) / range->step >=
            static_cast<long long>(kMost - numbers.size()))
            return {};
        for (long long number = range->first; number <= range->last; number += range->step)
            numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

}  // namespace autolaunch::launcher
