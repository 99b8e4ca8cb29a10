#pragma once
#include "spec/value.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

inline constexpr std::size_t kMaxSpecBytes = 4 << 20;   ///< a larger file is not a job's spec
inline constexpr std::size_t kMaxValues = 200'000;      ///< after aliases are expanded
inline constexpr std::size_t kMaxTextBytes = 16 << 20;  ///< of all values and keys, the same
inline constexpr std::size_t kMaxKeyBytes = 1024;       ///< as YAML has it for keys without "? "

/// One YAML document as a tree: anchors, aliases and merge keys (`<<`) are resolved by copying.
/// Whatever is wrong (encoding, syntax, duplicate keys, several documents, too deep, too large) is
/// appended to `errors`; it never throws for the text's sake.
Value read_yaml(std::string_view text, const std::string& file, std::vector<SpecError>& errors);

/// The offset of the first byte that is not part of well-formed UTF-8, or that is a control
/// character YAML forbids; npos when there is none.
std::size_t first_unprintable(std::string_view text);

}  // namespace autolaunch::launcher
