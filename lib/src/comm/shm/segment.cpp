#include "comm/shm/segment.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace autolaunch::shm {

Segment Segment::create(int size, std::span<const int> pids) {
    Segment segment(SharedMapping::create("autolaunch-shm", Layout(size).bytes()), size);
    segment.header().size = size;
    for (std::size_t rank = 0; rank < pids.size(); ++rank) {
        segment.rank_state(static_cast<int>(rank)).pid.store(pids[rank], std::memory_order_relaxed);
    }
    return segment;
}

Segment Segment::attach(const std::string& address, int size) {
    std::optional<SharedMapping> mapping = SharedMapping::attach(address, Layout(size).bytes());
    if (mapping) {
        Segment segment(std::move(*mapping), size);
        if (segment.header().size == size)
            return segment;
    }
    throw Error(
        ErrorCode::closed,
        fmt::format("what is at '{}' is not rank 0 of this group of {}", address, size),
        "rank 0 went away and its process number was reused, or the ranks run different releases");
}

ShrinkCell& Segment::shrink_cell(int rank) const noexcept {
    return reinterpret_cast<ShrinkCell*>(mapping_.data() + layout_.shrink_cells())[rank];
}

Channel& Segment::channel(int from, int to) const noexcept {
    const std::size_t index =
        static_cast<std::size_t>(from) * layout_.size + static_cast<std::size_t>(to);
    return reinterpret_cast<Channel*>(mapping_.data() + layout_.channels())[index];
}

void Segment::take_slots(int rank) const noexcept {
    constexpr std::size_t kBytes = kSlots * kSlotBytes;
    mapping_.take_pages(layout_.slots() + static_cast<std::size_t>(rank) * kBytes, kBytes);
}

std::byte* Segment::channel_chunk(int from, int to, std::uint64_t chunk) const noexcept {
    const std::size_t index =
        static_cast<std::size_t>(from) * layout_.size + static_cast<std::size_t>(to);
    return mapping_.data() + layout_.channel_chunks() +
           (index * kChannelChunks + chunk % kChannelChunks) * kChannelChunkBytes;
}

}  // namespace autolaunch::shm
