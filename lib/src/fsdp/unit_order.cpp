#include "fsdp/unit_order.hpp"

#include "base/hash.hpp"

namespace autolaunch::fsdp {

std::optional<UnitEvent> UnitOrder::observe(UnitEvent event) {
    latest_ = event;
    if (!frozen_) {
        events_.push_back(event);
        frozen_ = event.action == UnitAction::step;
        return std::nullopt;
    }
    if (!(event == events_[position_])) return events_[position_];
    position_ = (position_ + 1) % events_.size();
    return std::nullopt;
}

std::span<const UnitEvent> UnitOrder::upcoming() const noexcept {
    if (!frozen_) return {};
    return std::span(events_).subspan(position_);
}

std::uint64_t UnitOrder::hash() const {
    std::vector<std::uint64_t> words;
    words.reserve(2 * events_.size());
    for (const UnitEvent& event : events_) {
        words.push_back(static_cast<std::uint64_t>(event.action));
        words.push_back(event.unit_index);
    }
    return hash64(words.data(), words.size() * sizeof words[0]);
}

}  // namespace autolaunch::fsdp
