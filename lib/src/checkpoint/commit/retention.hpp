#pragma once
#include <autolaunch/checkpoint/checkpointer.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

/// What the rules for keeping look at.
struct KeptCheckpoint {
    std::int64_t step = 0;
    std::string name;
};
/// Of a complete checkpoint: its metric, if it has one. Nothing for one that is not complete.
struct CompleteCheckpoint {
    std::optional<double> metric;
};

/// The names that may go: all but
///   - `just_saved`, and complete ones until CheckpointOptions::keep are kept, the newest first;
///   - steps that are multiples of keep_every;
///   - of the others the keep_best with the best metric, the newer one of equals.
/// Incomplete ones go once enough newer ones are complete. `checkpoints` are newest first; `look`
/// is asked for as few as the rules need. Pure but for `look`.
std::vector<std::string> no_longer_kept(
    const std::vector<KeptCheckpoint>& checkpoints, const CheckpointOptions& options,
    std::int64_t just_saved,
    const std::function<std::optional<CompleteCheckpoint>(const std::string&)>& look);

}  // namespace autolaunch
