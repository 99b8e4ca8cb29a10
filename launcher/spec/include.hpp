#pragma once
#include "spec/interpolate.hpp"
#include "spec/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

inline constexpr int kMaxFiles = 32;  ///< of one spec, each counted as often as it is included

/// Reads `file` and, depth first, what its `include:` names (relative to it). A file wins over what
/// it includes, and a later include over an earlier one; mappings merge deeply. The `include` key
/// is gone from the result. `text` is that of `file`, where somebody has read it already. `digest`
/// becomes one of the bytes of all files, in the order read.
Value read_with_includes(const std::string& file, const std::optional<std::string>& text,
                         Variables& variables, std::vector<SpecError>& errors,
                         std::uint64_t& digest);

}  // namespace autolaunch::launcher
