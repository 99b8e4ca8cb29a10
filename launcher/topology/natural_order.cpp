#include "topology/natural_order.hpp"

#include <algorithm>

namespace autolaunch::launcher {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a number, without leading zeros, off the front.
std::string_view take_number(std::string_view& text) {
    const auto end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) -
                                              text.begin());
    std::string_view number = text.substr(0, end);
    text.remove_prefix(end);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
    const std::string_view whole_a = a, whole_b = b;
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            const auto x = take_number(a), y = take_number(b);
            if (x.size() != y.size())
                return x.size() < y.size();
            if (x != y)
                return x < y;
        } else {
            if (a.front() != b.front())
                return a.front() < b.front();
            a.remove_prefix(1);
            b.remove_prefix(1);
        }
    }
    if (a.empty() != b.empty())
        return a.empty();
    return whole_a < whole_b;
}

}  // namespace autolaunch::launcher
