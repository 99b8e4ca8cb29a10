#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

// Which checkpoint goes to the far tier next, and which leave it. Pure.

struct DrainRetention {
    int keep = 2;                 ///< the newest complete checkpoints that stay; at least 1
    std::int64_t keep_every = 0;  ///< those whose step is a multiple of it stay too; 0: none
    int keep_best = 0;  ///< and so many of the others by their metric, the newer one of equals
    bool lower_is_better = true;
    /// Between two that come there by their age alone; both 0: each may come. One of them is
    /// enough.
    std::int64_t every_steps = 0, every_ms = 0;
};

/// A checkpoint that is published here.
struct NearCheckpoint {
    std::int64_t step = 0;
    std::optional<double> metric = {};  ///< asked for only where DrainRetention::keep_best counts
    std::optional<std::int64_t> saved_ms = {};  ///< since 1970; only where every_ms counts
};

/// What is named like a checkpoint in the far tier.
struct FarCheckpoint {
    std::string name;
    std::int64_t step = 0;
    bool published = false;
    bool complete = false;  ///< published, and its manifest is whole and its files are there
    std::optional<double> metric = {};
    std::optional<std::int64_t> saved_ms = {};
};

struct DrainDecision {
    std::optional<std::int64_t> copy;     ///< from near to far
    std::vector<std::int64_t> left = {};  ///< with it, all that are to be copied; newest first
    std::vector<FarCheckpoint> remove;
};

/// `near` are those that are complete here, without those that cannot be read.
/// Copied is the newest that will stay there and is not complete there, so that a drain that is
/// slower than the saves skips some. Removed are complete ones that need not stay, and unfinished
/// ones that nobody will finish; but nothing is removed while there is something to copy, and
/// nothing at all while no complete one is there. Where the retention says how far apart they shall
/// be, one is copied that is so far from the newest there, or a multiple of keep_every; and
/// `at_end` the newest whatever its age.
DrainDecision decide_drain(const std::vector<NearCheckpoint>& near,
                           const std::vector<FarCheckpoint>& far, const DrainRetention& retention,
                           bool at_end = false);

}  // namespace autolaunch
