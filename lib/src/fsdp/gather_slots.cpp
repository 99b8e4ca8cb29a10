#include "fsdp/gather_slots.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::fsdp {

GatherSlots::GatherSlots(std::vector<std::byte*> memory, std::size_t bytes, Allocate allocate,
                         bool hide)
    : hides_(hide),
      capacity_(memory.size()),
      slot_bytes_(bytes),
      free_(std::move(memory)),
      allocate_(std::move(allocate)) {}

bool GatherSlots::is_kept(std::size_t bucket) const noexcept {
    return std::find(kept_.begin(), kept_.end(), bucket) != kept_.end();
}

std::byte* GatherSlots::memory_of(std::size_t bucket) const noexcept {
    return bucket < places_.size() ? places_[bucket].memory : nullptr;
}

GatherSlots::Place& GatherSlots::place(std::size_t bucket) {
    if (bucket >= places_.size())
        places_.resize(bucket + 1);
    return places_[bucket];
}

bool GatherSlots::keep(std::size_t bucket) {
    const auto found = std::find(kept_.begin(), kept_.end(), bucket);
    if (found != kept_.end()) {
        std::rotate(found, found + 1, kept_.end());
        return false;
    }
    if (kept_.size() == capacity_) {
        leave(kept_.front());
        kept_.erase(kept_.begin());
    }
    Place& its = place(bucket);
    const bool was_away = its.memory == nullptr;
    if (was_away && free_.empty()) {
        free_.reserve(capacity_ + extra_.size() + 1);  // so that let_go() cannot fail
        free_.push_back(
            static_cast<std::byte*>(extra_.emplace_back(allocate_(slot_bytes_)).data()));
    }
    kept_.push_back(bucket);
    if (!was_away)
        return false;  // it was to leave, but is still in use
    its.memory = free_.back();
    free_.pop_back();
    return true;
}

void GatherSlots::hold(std::size_t bucket) {
    Place& its = place(bucket);
    its.in_use = true;
    hidden_.show(its.memory);
}

void GatherSlots::let_go(std::size_t bucket) noexcept {
    places_[bucket].in_use = false;
    if (hides_)
        hidden_.hide(places_[bucket].memory, slot_bytes_);
    if (!is_kept(bucket))
        leave(bucket);
}

void GatherSlots::leave(std::size_t bucket) noexcept {
    Place& its = places_[bucket];
    if (its.in_use || its.memory == nullptr)
        return;
    hidden_.forget(its.memory);
    free_.push_back(std::exchange(its.memory, nullptr));
}

void GatherSlots::clear() noexcept {
    for (const std::size_t bucket : std::exchange(kept_, {}))
        leave(bucket);
}

}  // namespace autolaunch::fsdp
