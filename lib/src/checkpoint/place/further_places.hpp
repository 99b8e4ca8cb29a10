#pragma once
#include <autolaunch/checkpoint/checkpointer.hpp>

#include <string>
#include <vector>

namespace autolaunch {

/// Where checkpoints go besides the directory that they are saved to, the nearest first:
/// CheckpointOptions::tiers, or the one place of `drain`; without a slash at its end. Pure. Throws
/// Error{invalid_argument} that names the option: for both of them, for a place that is named twice
/// or is `directory`, for numbers that make no sense.
std::vector<TierOptions> further_places(const CheckpointOptions& options);

}  // namespace autolaunch
