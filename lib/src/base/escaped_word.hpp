#pragma once
#include <autolaunch/export.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace autolaunch {

/// Bytes up to 0x20, 0x7F and '%' as '%' and two digits, upper case: one word of one line, whatever
/// bytes a path has.
AUTOLAUNCH_API std::string escaped_word(std::string_view text);
/// Nothing where a '%' has not its two digits.
AUTOLAUNCH_API std::optional<std::string> plain_word(std::string_view word);

}  // namespace autolaunch
