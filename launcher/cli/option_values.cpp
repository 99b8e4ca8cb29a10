#include "cli/option_values.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"

namespace autolaunch::launcher {

int number_from(const std::string& text, const char* option, int minimum, int maximum) {
    long long number = 0;
    if (!parse_integer(text, number) || number < minimum || number > maximum)
        throw UsageError(std::string(option) + ' ' + text +
                         ": expected a whole number >= " + std::to_string(minimum) +
                         (maximum < 1'000'000 ? " and <= " + std::to_string(maximum) : ""));
    return static_cast<int>(number);
}

}  // namespace autolaunch::launcher
