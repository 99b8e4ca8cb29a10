#include "fsdp/unit_order.hpp"

#include "base/hash.hpp"

namespace autolaunch::fsdp {

namespace {

std::uint64_t hash_of(std::span<const UnitEvent> events) {
    std::vector<std::uint64_t> words;
    words.reserve(2 * events.size());
    for (const UnitEvent& event : events) {
        words.push_back(static_cast<std::uint64_t>(event.action));
        words.push_back(event.unit_index);
    }
    return hash64(words.data(), words.size() * sizeof words[0]);
}

}  // namespace

std::optional<UnitEvent> UnitOrder::observe(UnitEvent event) {
    latest_ = event;
    if (!frozen_) {
        events_.push_back(event);
        frozen_ = event.action == UnitAction::step;
        return std::nullopt;
    }
    if (!(event == events_[position_]))
        return events_[position_];
    position_ = (position_ + 1) % events_.size();
    return std::nullopt;
}

std::span<const UnitEvent> UnitOrder::upcoming() const noexcept {
    if (!frozen_)
        return {};
    return std::span(events_).subspan(position_);
}

void UnitOrder::discard_step() {
    if (!frozen_)
        events_.clear();
    position_ = 0;
}

std::uint64_t UnitOrder::hash() const { return hash_of(events_); }

std::uint64_t UnitOrder::hash_of_step() const {
    return hash_of(std::span(events_).first(frozen_ ? position_ : events_.size()));
}

}  // namespace autolaunch::fsdp
