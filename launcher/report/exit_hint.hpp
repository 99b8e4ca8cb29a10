#pragma once
#include "report/event.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the exit most likely means, where that is known; else empty. What a rank, its shell or its
/// loader said last is read for texts that name the cause: a library that is missing, DOS line
/// ends, a data loader's process that was killed. Pure.
std::string exit_hint(const RankExited& exit, std::optional<std::int64_t> oom_kills,
                      const std::vector<std::string>& last_lines = {});

}  // namespace autolaunch::launcher
