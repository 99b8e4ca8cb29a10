#pragma once
#include "base/text.hpp"

#include <string>
#include <vector>

namespace autolaunch {

/// The numbers of "550.54.15", up to the first part that is none; they compare as versions do.
/// Pure.
inline std::vector<long long> dotted_numbers(const std::string& version) {
    std::vector<long long> numbers;
    for (const std::string& part : split(version, '.')) {
        long long number = 0;
        if (!parse_integer(part, number))
            break;
        numbers.push_back(number);
    }
    return numbers;
}

/// Whether it is two numbers at least, with dots between, and nothing else. Pure.
inline bool is_dotted_version(const std::string& text) {
    return text.find('.') != text.npos && dotted_numbers(text).size() == split(text, '.').size();
}

}  // namespace autolaunch
