#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Of --array: "0-9", "1,3,5-20:5", perhaps "%4" behind it.
struct ArrayNumbers {
    long long count = 0;
    long long highest = 0;
    std::optional<long long> throttle = {};  ///< so many at the same time
};

/// Nothing: it is none; `why` says in words what is wrong. Pure.
std::optional<ArrayNumbers> parse_array(std::string_view text, std::string& why);

/// Each number of what Slurm writes of an array, such as "3" or "4-7%2", ascending. Empty: it is
/// none of those, or of more than 100000. Pure.
std::vector<long long> list_array(std::string_view text);

}  // namespace autolaunch::launcher
