#pragma once
// The memory that the ranks of a group keep in step by.
#include "comm/shm/layout.hpp"
#include "comm/shm/shared_mapping.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace autolaunch::shm {

/// One mapping of the segment (layout.hpp). Rank 0 creates it and publishes its address.
///
/// Owner: the backend. Threads: any. Blocks: never.
class Segment {
public:
    /// `pids`, when given, holds the members' process numbers, so that a rank that dies before it
    /// attaches is noticed.
    static Segment create(int size, std::span<const int> pids = {});
    /// Throws as SharedMapping::attach(), and Error{closed} when it is not the memory of such a
    /// group.
    static Segment attach(const std::string& address, int size);

    const std::string& address() const noexcept { return mapping_.address(); }
    /// Closes the creator's descriptor: from then on nobody can attach.
    void close_to_newcomers() noexcept { mapping_.close_to_newcomers(); }

    Header& header() const noexcept { return *reinterpret_cast<Header*>(mapping_.data()); }
    RankState& rank_state(int rank) const noexcept {
        return reinterpret_cast<RankState*>(mapping_.data() + layout_.rank_states())[rank];
    }
    Entry& entry(int rank, std::uint64_t piece) const noexcept {
        const std::size_t index = static_cast<std::size_t>(rank) * kEntries + piece % kEntries;
        return reinterpret_cast<Entry*>(mapping_.data() + layout_.entries())[index];
    }
    ShrinkCell& shrink_cell(int rank) const noexcept;
    Channel& channel(int from, int to) const noexcept;
    std::byte* slot(int rank, std::uint64_t piece) const noexcept {
        return mapping_.data() + layout_.slots() +
               (static_cast<std::size_t>(rank) * kSlots + piece % kSlots) * kSlotBytes;
    }
    /// Takes the memory of a rank's slots, which that rank does. Where there is none, the first
    /// access fails.
    void take_slots(int rank) const noexcept;
    std::byte* channel_chunk(int from, int to, std::uint64_t chunk) const noexcept;

private:
    Segment(SharedMapping mapping, int size) : layout_(size), mapping_(std::move(mapping)) {}

    Layout layout_;
    SharedMapping mapping_;
};

}  // namespace autolaunch::shm
