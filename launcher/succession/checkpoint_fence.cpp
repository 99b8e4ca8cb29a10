#include "succession/checkpoint_fence.hpp"

namespace autolaunch::launcher {

std::optional<CheckpointMark> checkpoint_that_counts(const GenerationRecord& newest,
                                                     std::span<const CheckpointMark> published) {
    std::optional<CheckpointMark> counts = newest.start_from;
    for (const CheckpointMark& mark : published)
        if (mark.generation == newest.generation && (!counts || counts->step < mark.step))
            counts = mark;
    return counts;
}

}  // namespace autolaunch::launcher
