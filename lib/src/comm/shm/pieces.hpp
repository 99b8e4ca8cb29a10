#pragma once
// How the ranks of a segment keep step: each call takes some pieces of the communicator's life
// (layout.hpp).
#include "comm/call.hpp"
#include "comm/shm/peers.hpp"
#include "comm/shm/ranges.hpp"
#include "comm/shm/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace autolaunch::shm {

/// Where a rank puts what a piece of it holds.
enum class Room : std::uint8_t { entry, slot };
/// Of a piece that has no more than `bytes`, on all ranks.
constexpr Room room_for(std::size_t bytes) {
    return bytes <= Entry::kPayloadBytes ? Room::entry : Room::slot;
}

/// One call of a collective, for the time that it runs.
struct Collective {
    const CollectiveCall& call;
    Operation operation;
    Descriptor descriptor;
    std::uint64_t first_piece;
};

/// Whether results go past the caches: when a rank's buffers are more than its share of them holds.
/// Not in place, where the results' lines were just read.
bool worth_streaming(const CollectiveCall& call) noexcept;

/// A rank's entries, slots and counters. A rank opens a piece before it writes to its slot or
/// entry, says when it is filled and its part reduced, and says when it is done with the piece; it
/// waits for others to have filled or reduced theirs. Every rank fills the first piece of every
/// call, if only with its Descriptor: whoever waits for another compares the two, and a difference
/// aborts the group and throws Error{mismatch} that names both ranks and calls.
///
/// Owner: the backend. Threads: one. Blocks: open() and the await functions, as Peers::wait().
class Pieces {
public:
    Pieces(const Segment& segment, Peers& peers, int rank, int size);

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    /// The others in an order in which no rank is asked by all at once: neighbour(1), neighbour(2),
    /// …
    int neighbour(int distance) const noexcept {
        const int next =
            rank_ + distance;  // distance < size_; and a division takes as long as a cached read
        return next < size_ ? next : next - size_;
    }

    /// `kind` is the call's own, or what the call is a part of.
    Collective begin(const CollectiveCall& call, Kind kind);
    Collective begin(const CollectiveCall& call) { return begin(call, kind_of(call.kind)); }

    /// Waits until the entry may be written, and with Room::slot the slot too.
    void open(const Collective& collective, std::uint64_t piece, Room room);
    void publish_filled(const Collective& collective, std::uint64_t piece);
    void publish_reduced(std::uint64_t piece);
    void publish_done(std::uint64_t piece);
    void await_filled(const Collective& collective, int peer, std::uint64_t piece);
    void await_reduced(const Collective& collective, int peer, std::uint64_t piece);
    /// All others.
    void await_done(const Collective& collective, std::uint64_t piece);
    std::byte* slot(int rank, std::uint64_t piece) const noexcept {
        return segment_.slot(rank, piece);
    }
    std::byte* payload(int rank, std::uint64_t piece) const noexcept {
        return segment_.entry(rank, piece).payload;
    }
    /// Where a rank's `bytes` of a piece are that has no more: in its entry when they fit, else in
    /// its slot.
    std::byte* room(int rank, std::uint64_t piece, std::size_t bytes) const noexcept {
        return room_for(bytes) == Room::entry ? payload(rank, piece) : segment_.slot(rank, piece);
    }
    /// What `peer` has brought to the call; after await_filled() of the call's first piece.
    const Descriptor& descriptor(int peer, std::uint64_t piece) const noexcept {
        return segment_.entry(peer, piece).descriptor;
    }

    /// By rank, for one reduction: the caller sets them.
    std::span<const void*> inputs() noexcept { return inputs_; }
    /// Of a pre_multiplied_sum, by rank, once all others' pieces were awaited; else empty.
    std::span<const double> factors(const Collective& collective) const noexcept;

    /// Of an all_to_all: fails when `peer` sends another number of elements than this rank expects.
    void check_block(const Collective& collective, int peer, std::size_t sent,
                     std::size_t expected);
    /// Aborts the group and throws Error{mismatch}.
    [[noreturn]] void fail_mismatch(const std::string& text);

private:
    void enter(const Collective& collective);
    void await_entered(const Collective& collective, int peer);
    void fail_different(const Collective& collective, int peer);

    const Segment& segment_;
    Peers& peers_;
    int rank_;
    int size_;
    bool has_slots_ = false;  // not before a call needs them: many groups only ever make small ones
    bool is_short_ = true;    // the call in progress
    std::uint64_t next_piece_ = 0;
    std::uint64_t digest_ = 0;               // of all calls up to this one
    std::vector<std::uint64_t> known_done_;  // by rank: pieces that it was done with when last seen
    std::vector<const void*> inputs_;
    std::vector<double> factors_;
};

}  // namespace autolaunch::shm
