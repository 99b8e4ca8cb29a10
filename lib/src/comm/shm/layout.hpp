#pragma once
// What the ranks of one node share: the segment's layout. All of it starts as zeros.
//
//   Header | RankState x size | Entry x kEntries x size | ShrinkCell x size | Channel x size x size
//   | slots: kSlots x kSlotBytes x size | channel chunks
//
// Collectives move in pieces. Piece n of the communicator's life uses entry n % kEntries and slot n
// % kSlots of every rank. A rank begins each call by writing an entry, which also holds its data
// when they are few: one cache line then carries all. It counts in its own RankState how many
// pieces it has filled, reduced and done with; the counters never go back, and only their owner
// writes them. Whoever waits for a counter reads it, then sleeps on the owner's futex word
// `signal`.
#include "comm/call.hpp"

#include <autolaunch/comm/types.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace autolaunch::shm {

constexpr std::size_t kCacheLine = 128;  // two lines: the prefetcher fetches them in pairs
constexpr std::size_t kPage = 4096;
constexpr std::size_t kEntries = 16;  // so many small calls may one rank be ahead of the others
constexpr std::size_t kSlots = 4;
constexpr std::size_t kSlotBytes = 256 * 1024;
constexpr std::size_t kChannelChunks = 4;
constexpr std::size_t kChannelChunkBytes = 64 * 1024;
constexpr std::size_t kRegionHeaderBytes =
    64;  // before a block's bytes in a slot that has one for every rank
constexpr int kMaxRanks = 1024;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::int32_t>::is_always_lock_free);

/// What a rank can call: the collectives by their own numbers, and what else all ranks do together.
enum class Kind : std::uint8_t { barrier = 32, split, allocate };
constexpr Kind kind_of(CollectiveKind kind) { return static_cast<Kind>(kind); }
enum class Presence : std::uint32_t { absent, attached, left };
enum class AbortPhase : std::uint32_t { none, writing, written };

/// Where a buffer is, for the other ranks.
struct Location {
    static constexpr std::uint32_t kElsewhere = 0;  ///< in memory that only its rank has

    std::uint32_t allocation = kElsewhere;  ///< number of an Allocation
    std::uint64_t offset = 0;               ///< in the rank's part of it
};

/// What a rank believes the current collective to be. The first part is equal on all ranks, or they
/// have called different ones.
struct Descriptor {
    std::uint64_t count =
        0;  ///< elements: of all ragged blocks together, of one equal block, or of the buffer
    std::uint64_t counts = 0;  ///< digest of ragged counts, else 0
    std::int32_t root = 0;
    Kind kind = Kind::barrier;
    DataType type = DataType::u8;
    ReduceOp::Kind op = ReduceOp::Kind::sum;
    std::uint8_t unused = 0;

    double factor = 1;  ///< of this rank's elements
    Location send = {};
    Location recv = {};
    bool is_direct = false;  ///< the others can reach what they need of its buffers
    bool in_place = false;

    /// An all_to_all's counts differ between ranks by right.
    bool same_call(const Descriptor& other) const noexcept {
        const bool same_counts = count == other.count && counts == other.counts;
        return kind == other.kind && type == other.type && op == other.op && root == other.root &&
               (same_counts || kind == kind_of(CollectiveKind::all_to_all));
    }
};

struct Header {
    char token[64];  ///< SharedMapping's
    std::int32_t size;
    std::atomic<std::uint32_t> abort_phase;  ///< AbortPhase
    std::int32_t abort_code;                 ///< ErrorCode
    char abort_text[512];
};

/// What a rank brings to a call, in the call's first piece.
struct alignas(kCacheLine) Entry {
    static constexpr std::size_t kPayloadBytes = 880;

    std::atomic<std::uint64_t> written;  ///< the piece's number and 1 more; written last
    std::uint64_t
        digest;  ///< of this call and all before it, as far as they are equal on all ranks
    std::byte payload[kPayloadBytes];
    alignas(64) Descriptor descriptor;
};
static_assert(sizeof(Entry) == 1024);

struct alignas(kCacheLine) RankState {
    std::atomic<std::uint64_t> filled;
    std::atomic<std::uint64_t> reduced;
    alignas(kCacheLine) std::atomic<std::uint64_t> done;
    alignas(kCacheLine) std::atomic<std::uint32_t> presence;  ///< Presence
    std::atomic<std::int32_t> pid;
    alignas(kCacheLine)
        std::atomic<std::uint32_t> sleepers;  ///< ranks asleep on `signal`; too high after a kill
    std::atomic<std::uint32_t>
        signal;  ///< futex word: grows when this rank publishes something and others sleep
    /// Futex word: grows with everything that others publish in their channels with this rank.
    alignas(kCacheLine) std::atomic<std::uint32_t> bell;
    std::atomic<std::uint32_t> hears_bell;  ///< 1 while this rank sleeps on `bell`
};

/// What a survivor says in a shrink of the group. Counters are of this rank's shrinks.
struct alignas(kCacheLine) ShrinkCell {
    std::atomic<std::uint64_t> attempt;  ///< the rank has written whom it takes for lost
    std::uint64_t digest;                ///< of the lost ranks
    char lost[104];                      ///< their names, cut to fit
    std::atomic<std::uint64_t> offered;  ///< the first survivor has written the new group's address
    char address[120];                   ///< empty when it failed
};

/// Into a field of shared memory: cut to fit, and with zeros to its end.
template <std::size_t N>
void write_text(char (&field)[N], std::string_view text) {
    std::memset(field, 0, N);
    std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

/// Messages from one rank to another: a ring of chunks. Each side rings the other's bell.
struct alignas(kCacheLine) Channel {
    std::atomic<std::uint64_t> filled;  ///< chunks written, by the sender
    struct {
        std::uint64_t message_bytes;
        std::uint64_t type;
    } chunks[kChannelChunks];
    alignas(kCacheLine) std::atomic<std::uint64_t> drained;  ///< chunks read, by the receiver
};

/// Byte offsets in a segment for `size` ranks. Untouched pages cost nothing.
struct Layout {
    explicit Layout(int ranks) : size(static_cast<std::size_t>(ranks)) {}

    std::size_t size;
    std::size_t rank_states() const { return kPage; }
    std::size_t entries() const { return rank_states() + size * sizeof(RankState); }
    std::size_t shrink_cells() const { return entries() + size * kEntries * sizeof(Entry); }
    std::size_t channels() const { return shrink_cells() + size * sizeof(ShrinkCell); }
    std::size_t slots() const { return page_up(channels() + size * size * sizeof(Channel)); }
    std::size_t channel_chunks() const { return slots() + size * kSlots * kSlotBytes; }
    std::size_t bytes() const {
        return channel_chunks() + size * size * kChannelChunks * kChannelChunkBytes;
    }

private:
    static std::size_t page_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
};
static_assert(sizeof(Header) <= kPage);

}  // namespace autolaunch::shm
