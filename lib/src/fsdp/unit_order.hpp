#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace autolaunch::fsdp {

/// What a trainer does with a unit that the other ranks must do too.
enum class UnitAction : std::uint8_t { gather, reduce, step };

struct UnitEvent {
    UnitAction action = UnitAction::step;
    std::size_t unit_index = 0;  ///< meaningless for `step`, which ends every step

    bool operator==(const UnitEvent&) const = default;
};

/// The order in which the first step gathers and reduces the units; every later step must repeat
/// it. Pure bookkeeping.
class UnitOrder {
public:
    /// Records the event in the first step. Later returns what was expected instead, if it is not
    /// that event; the position then stays where it was.
    std::optional<UnitEvent> observe(UnitEvent event);
    /// The step begins anew: what was observed of it did not happen.
    void discard_step();
    /// True once the first step is over.
    bool frozen() const noexcept { return frozen_; }
    /// The event that was observed last.
    UnitEvent latest() const noexcept { return latest_; }
    /// The events still to come in this step, which `step` ends; empty in the first step.
    std::span<const UnitEvent> upcoming() const noexcept;
    /// Of the recorded events; equal on ranks with equal orders.
    std::uint64_t hash() const;
    /// Of those of the step under way, so far.
    std::uint64_t hash_of_step() const;

private:
    std::vector<UnitEvent> events_;  // of one step; the last is `step`
    std::size_t position_ = 0;
    UnitEvent latest_;
    bool frozen_ = false;
};

}  // namespace autolaunch::fsdp
