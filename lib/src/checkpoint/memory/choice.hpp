#pragma once
#include "checkpoint/memory/layout.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace autolaunch::memory {

// What is decided about copies in memory: who keeps whose, which slot is written, and which save a
// restart takes from where. Pure.

/// The rank that keeps the second copy of each rank's shard: on the next node, the one in the same
/// place there (where it has fewer ranks, they share the work). -1 for all where there is one node
/// only.
std::vector<int> choose_keepers(std::span<const int> node_of_rank);

/// What a slot holds; nothing: no whole copy.
using SlotStates = std::array<std::optional<SaveName>, kSlots>;

/// The slot that the next copy is written to: one without a whole copy, else the older one; but
/// never the one that holds `complete`, the newest save that all ranks are known to have finished.
int slot_to_write(const SlotStates& slots, const std::optional<SaveName>& complete);

/// A whole copy, and the rank on whose node it is.
struct Copy {
    SaveName name;
    std::int32_t shard = 0;
    std::int32_t holder = 0;
    std::uint64_t used_bytes = 0;

    auto operator<=>(const Copy&) const = default;
};

struct Restore {
    SaveName name;
    std::vector<Copy> copies;  ///< by shard: the one to take
};

/// The newest save of a step before `before` of which every shard has a copy; each shard's own
/// where there is one.
std::optional<Restore> choose_restore(std::span<const Copy> copies, int world_size,
                                      std::int64_t before);

}  // namespace autolaunch::memory
