#pragma once
#include "stopping/save_times.hpp"

#include <cstdint>
#include <functional>

namespace autolaunch::launcher {

/// What the head's own node knows of its ranks that the time of a stop depends on. Rank 0, which
/// reports the checkpoints, is there.
///
/// Owner: supervise(); written by the head's NodeSupervisor, read by its StopPlanner, which
/// asks it for a checkpoint.
struct StopFacts {
    SaveTimes saves = {};
    StepPace pace = {};
    /// They stop by themselves or have a signal of their own for it: asked in time, they save.
    std::function<bool()> ranks_can_stop = {};
    std::function<void()> on_save = {};  ///< a save was measured
    std::function<void(std::int64_t step)> on_checkpoint = {};
    std::function<void()> ask_checkpoint = {};  ///< of the ranks of this node, by their sessions
};

}  // namespace autolaunch::launcher
