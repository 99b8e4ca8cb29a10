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
/// What a look at one tells.
struct LookedAt {
    enum State {
        complete,
        incomplete,
        unknown,  ///< it cannot be read
    };
    State state = incomplete;
    std::optional<double> metric = {};  ///< of a complete one, if it has one
};

/// The names that may go: all but
///   - `just_saved`, and complete ones until CheckpointOptions::keep are kept, the newest first;
///   - steps that are multiples of keep_every;
///   - of the others the keep_best with the best metric, the newer one of equals.
/// Incomplete ones go once enough newer ones are complete; what is unknown stays, and does not
/// count. `checkpoints` are newest first; `look` is asked once for each that may go, and for as few
/// others as the rules need. Pure but for `look`.
std::vector<std::string> no_longer_kept(const std::vector<KeptCheckpoint>& checkpoints,
                                        const CheckpointOptions& options, std::int64_t just_saved,
                                        const std::function<LookedAt(const KeptCheckpoint&)>& look);

}  // namespace autolaunch
