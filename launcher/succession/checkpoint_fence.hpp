#pragma once
#include "succession/record.hpp"

#include <optional>
#include <span>

namespace autolaunch::launcher {

/// What a generation after `newest` starts from: the newest that `newest` itself has published,
/// else what it started from. What generations before it publish late, from a machine that stood
/// still between its last look and its rename, does not count: the fence is at the reader. Pure.
std::optional<CheckpointMark> checkpoint_that_counts(const GenerationRecord& newest,
                                                     std::span<const CheckpointMark> published);

}  // namespace autolaunch::launcher
