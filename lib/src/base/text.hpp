#pragma once
#include <autolaunch/export.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

AUTOLAUNCH_API std::vector<std::string> split(std::string_view text, char separator);
AUTOLAUNCH_API std::string_view trim(std::string_view text);
AUTOLAUNCH_API std::string join(std::span<const std::string> parts, std::string_view separator);
/// A whole decimal number, sign allowed, nothing before or after; false otherwise.
AUTOLAUNCH_API bool parse_integer(std::string_view text, long long& value);
/// "SIGTERM" of 15; "signal 70" of a number that has no name.
AUTOLAUNCH_API std::string signal_name(int signal);
/// "0-3,8" of {0,1,2,3,8}: the kernel's list format. `numbers` must be sorted and unique.
AUTOLAUNCH_API std::string format_list(std::span<const int> numbers);
/// The candidate with the smallest edit distance (swaps count one), or "" when none is near enough
/// to be meant.
AUTOLAUNCH_API std::string nearest(std::string_view word, std::span<const std::string> candidates);
/// "; did you mean attention?" after what was asked for and is not there: in what() itself, which
/// is all that many programs show of an error. "" when none is near enough.
AUTOLAUNCH_API std::string nearest_asked(std::string_view word,
                                         std::span<const std::string> candidates);

}  // namespace autolaunch
