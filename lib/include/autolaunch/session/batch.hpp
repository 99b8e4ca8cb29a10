#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <cstdint>
#include <string>

namespace autolaunch {

/// A rank's part of a step's global batch, and in how many passes it takes it. Of a job that goes
/// on with fewer nodes, or more, the global batch stays what it was: ranks take other parts of it,
/// in more passes or fewer, whose gradients are accumulated.
struct BatchShare {
    std::int64_t first = 0;    ///< sample of the global batch
    std::int64_t count = 0;    ///< samples from there on; ranks differ by one at most
    std::int64_t at_once = 1;  ///< samples of a pass: micro_batch, or all of the largest part
    /// Forward and backward passes of every rank before the optimizer's step. The last of them may
    /// have fewer samples, and none on some ranks, which go along in collectives all the same.
    std::int64_t passes = 1;
    /// What each sample's gradient counts where gradients are averaged over ranks (as
    /// DistributedDataParallel and the optimizers of this library do): world_size / global_batch,
    /// so that every sample counts alike, also where ranks have unequal parts.
    double weight = 1;
    /// Why passes or parts are not all equal, for people; empty: they are. A trainer that gives
    /// each pass and rank the same weight trains on another average then, and should say so.
    std::string notice;

    bool is_even() const { return notice.empty(); }
};

/// Pure. `micro_batch` 0: all that a rank has in one pass. Throws Error{invalid_argument} for a
/// global batch with fewer samples than ranks, which would leave some without work, and for numbers
/// that are none.
AUTOLAUNCH_API BatchShare share_batch(std::int64_t global_batch, std::int64_t micro_batch, int rank,
                                      int world_size);

}  // namespace autolaunch
