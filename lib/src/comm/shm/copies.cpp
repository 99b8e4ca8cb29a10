#include "comm/shm/copies.hpp"

#include "comm/copy_unless_same.hpp"

#include <algorithm>
#include <cstring>

namespace autolaunch::shm {
namespace {

/// Where blocks lie in a buffer that has one of every rank, in bytes.
class ByteBlocks {
public:
    ByteBlocks(const BlockCounts& counts, std::size_t element_bytes)
        : counts_(counts), element_bytes_(element_bytes) {}
    Range of(int rank) const {
        return {counts_.offset(rank) * element_bytes_, counts_.count(rank) * element_bytes_};
    }
    std::size_t longest() const { return counts_.longest() * element_bytes_; }
    std::size_t total() const { return counts_.total() * element_bytes_; }

private:
    const BlockCounts& counts_;
    std::size_t element_bytes_;
};

/// A broadcast is a gathering of one block.
class RootBlock {
public:
    RootBlock(int root, std::size_t bytes) : root_(root), bytes_(bytes) {}
    Range of(int rank) const { return {0, rank == root_ ? bytes_ : 0}; }
    std::size_t longest() const { return bytes_; }

private:
    int root_;
    std::size_t bytes_;
};

std::size_t at_least_one(std::size_t pieces) { return std::max<std::size_t>(1, pieces); }

// Every rank's block, through its slots, to all that read. Filling runs one piece ahead, so that
// nobody waits for a neighbour who is only a little late. `recv` is null where nothing is read.
template <class Blocks>
void share_blocks(Pieces& pieces, const Collective& collective, const Blocks& blocks,
                  const std::byte* send, std::byte* recv) {
    const Range own = blocks.of(pieces.rank());
    const std::size_t steps = at_least_one(pieces_in(blocks.longest(), kSlotBytes));
    for (std::size_t step = 0; step <= steps; ++step) {
        const Range mine = piece_of(own.count, kSlotBytes, step);
        if (step == 0 || mine.count != 0) {
            const std::uint64_t piece = collective.first_piece + step;
            pieces.open(collective, piece, room_for(blocks.longest()));
            copy_unless_same(pieces.room(pieces.rank(), piece, blocks.longest()), send + mine.begin,
                             mine.count);
            pieces.publish_filled(collective, piece);
            if (recv != nullptr)
                copy_unless_same(recv + own.begin + mine.begin, send + mine.begin, mine.count);
        }
        if (step == 0)
            continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        for (int distance = 1; distance < pieces.size() && recv != nullptr; ++distance) {
            const int peer = pieces.neighbour(distance);
            const Range block = blocks.of(peer);
            const Range range = piece_of(block.count, kSlotBytes, step - 1);
            if (range.count == 0)
                continue;
            pieces.await_filled(collective, peer, piece);
            copy_unless_same(recv + block.begin + range.begin,
                             pieces.room(peer, piece, blocks.longest()), range.count);
        }
        pieces.publish_done(piece);
    }
}

// The root shows all of its data in its entry, and every rank takes its block.
void scatter_at_once(Pieces& pieces, const Collective& collective, const ByteBlocks& blocks) {
    const CollectiveCall& call = collective.call;
    const std::uint64_t piece = collective.first_piece;
    const auto* from = static_cast<const std::byte*>(call.send);
    const bool is_root = pieces.rank() == call.root;
    pieces.open(collective, piece, Room::entry);
    if (is_root)
        copy_unless_same(pieces.payload(call.root, piece), from, blocks.total());
    pieces.publish_filled(collective, piece);
    if (!is_root) {
        pieces.await_filled(collective, call.root, piece);
        from = pieces.payload(call.root, piece);
    }
    const Range own = blocks.of(pieces.rank());
    copy_unless_same(static_cast<std::byte*>(call.recv), from + own.begin, own.count);
    pieces.publish_done(piece);
}

std::uint64_t& header_of(std::byte* region) {
    return *reinterpret_cast<std::uint64_t*>(region - kRegionHeaderBytes);
}

// The first piece of an all_to_all: a rank's entry says how long its longest block is, since the
// ranks' counts differ. If all of its blocks are short, they follow there, one after the other in
// the order of neighbour(), each behind its own length. For two ranks all of that is in one cache
// line.
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

std::uint64_t read_length(const std::byte* from) {
    std::uint64_t length = 0;
    std::memcpy(&length, from, sizeof length);
    return length;
}

void write_length(std::byte* to, std::uint64_t length) { std::memcpy(to, &length, sizeof length); }

// What this rank sends to or receives from another, in bytes.
std::uint64_t longest_block(const Pieces& pieces, const CollectiveCall& call) {
    std::size_t longest = 0;
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const int peer = pieces.neighbour(distance);
        longest = std::max({longest, call.blocks.count(peer), call.recv_blocks.count(peer)});
    }
    return longest * call.element_bytes();
}

// Between the beginnings of two blocks in an entry.
std::size_t packed_stride(const Pieces& pieces) {
    const std::size_t others = std::max<std::size_t>(1, index(pieces.size()) - 1);
    return (Entry::kPayloadBytes - kLengthBytes) / others / kLengthBytes * kLengthBytes;
}

bool is_packed(const Pieces& pieces, std::uint64_t longest) {
    const std::size_t stride = packed_stride(pieces);
    return stride > kLengthBytes && longest <= stride - kLengthBytes;
}

// For the rank that is the entry's neighbour(distance).
std::byte* packed_block(const Pieces& pieces, std::byte* payload, int distance) {
    return payload + kLengthBytes + index(distance - 1) * packed_stride(pieces);
}

/// What a rank has sent to this one in a piece.
struct Sent {
    std::uint64_t bytes;  ///< of the whole block
    const std::byte* data;
};

Sent sent_by(Pieces& pieces, const Collective& collective, int distance, std::size_t step) {
    const int peer = pieces.neighbour(distance);
    const std::uint64_t piece = collective.first_piece + step;
    if (step == 0 && is_packed(pieces, read_length(pieces.payload(peer, piece)))) {
        const std::byte* const block =
            packed_block(pieces, pieces.payload(peer, piece), pieces.size() - distance);
        return {read_length(block), block + kLengthBytes};
    }
    std::byte* const block = region(pieces, pieces.slot(peer, piece), pieces.rank());
    return {header_of(block), block};
}

// How many pieces there are is known only when all have said what their longest block is.
std::size_t steps_of_all(Pieces& pieces, const Collective& collective) {
    std::uint64_t longest = read_length(pieces.payload(pieces.rank(), collective.first_piece));
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const int peer = pieces.neighbour(distance);
        pieces.await_filled(collective, peer, collective.first_piece);
        longest = std::max(longest, read_length(pieces.payload(peer, collective.first_piece)));
    }
    return at_least_one(pieces_in(longest, region_bytes(pieces)));
}

}  // namespace

std::size_t region_bytes(const Pieces& pieces) noexcept {
    const std::size_t whole = kSlotBytes / static_cast<std::size_t>(pieces.size());
    return whole / kSliceAlignment * kSliceAlignment - kRegionHeaderBytes;
}

std::byte* region(const Pieces& pieces, std::byte* slot, int to) noexcept {
    return slot + static_cast<std::size_t>(to) * (region_bytes(pieces) + kRegionHeaderBytes) +
           kRegionHeaderBytes;
}

void fill_regions(Pieces& pieces, const Collective& collective, std::size_t step) {
    const ByteBlocks blocks(collective.call.blocks, collective.call.element_bytes());
    const auto* send = static_cast<const std::byte*>(collective.call.send);
    const std::uint64_t piece = collective.first_piece + step;
    pieces.open(collective, piece, Room::slot);
    std::byte* slot = pieces.slot(pieces.rank(), piece);
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const int peer = pieces.neighbour(distance);
        const Range block = blocks.of(peer);
        const Range range = piece_of(block.count, region_bytes(pieces), step);
        std::byte* to = region(pieces, slot, peer);
        header_of(to) = block.count;
        copy_unless_same(to, send + block.begin + range.begin, range.count);
    }
    pieces.publish_filled(collective, piece);
}

void broadcast(Pieces& pieces, const Collective& collective) {
    auto* data = static_cast<std::byte*>(collective.call.recv);
    const RootBlock block(collective.call.root,
                          collective.call.count * collective.call.element_bytes());
    share_blocks(pieces, collective, block, data,
                 pieces.rank() == collective.call.root ? nullptr : data);
}

void all_gather(Pieces& pieces, const Collective& collective) {
    const ByteBlocks blocks(collective.call.blocks, collective.call.element_bytes());
    share_blocks(pieces, collective, blocks, static_cast<const std::byte*>(collective.call.send),
                 static_cast<std::byte*>(collective.call.recv));
}

void gather(Pieces& pieces, const Collective& collective) {
    const ByteBlocks blocks(collective.call.blocks, collective.call.element_bytes());
    const bool reads = pieces.rank() == collective.call.root;
    share_blocks(pieces, collective, blocks, static_cast<const std::byte*>(collective.call.send),
                 reads ? static_cast<std::byte*>(collective.call.recv) : nullptr);
}

void scatter(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const ByteBlocks blocks(call.blocks, call.element_bytes());
    if (room_for(blocks.total()) == Room::entry)
        return scatter_at_once(pieces, collective, blocks);
    const Range own = blocks.of(pieces.rank());
    auto* recv = static_cast<std::byte*>(call.recv);
    const std::size_t steps = at_least_one(pieces_in(blocks.longest(), region_bytes(pieces)));
    for (std::size_t step = 0; step < steps; ++step) {
        const std::uint64_t piece = collective.first_piece + step;
        const Range range = piece_of(own.count, region_bytes(pieces), step);
        if (pieces.rank() == call.root) {
            fill_regions(pieces, collective, step);
            copy_unless_same(recv + range.begin,
                             static_cast<const std::byte*>(call.send) + own.begin + range.begin,
                             range.count);
        } else {
            if (step == 0) {
                pieces.open(collective, piece, Room::entry);
                pieces.publish_filled(collective, piece);
            }
            if (step == 0 || range.count != 0)
                pieces.await_filled(collective, call.root, piece);
            copy_unless_same(recv + range.begin,
                             region(pieces, pieces.slot(call.root, piece), pieces.rank()),
                             range.count);
        }
        pieces.publish_done(piece);
    }
}

bool pack_blocks(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const ByteBlocks blocks(call.blocks, call.element_bytes());
    std::byte* const payload = pieces.payload(pieces.rank(), collective.first_piece);
    const std::uint64_t longest = longest_block(pieces, call);
    write_length(payload, longest);
    if (!is_packed(pieces, longest))
        return false;
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const Range block = blocks.of(pieces.neighbour(distance));
        std::byte* const to = packed_block(pieces, payload, distance);
        write_length(to, block.count);
        copy_unless_same(to + kLengthBytes, static_cast<const std::byte*>(call.send) + block.begin,
                         block.count);
    }
    return true;
}

bool exchange_packed(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const int peer = pieces.neighbour(distance);
        pieces.await_filled(collective, peer, collective.first_piece);
        if (!is_packed(pieces, read_length(pieces.payload(peer, collective.first_piece))))
            return false;
    }
    const ByteBlocks sends(call.blocks, call.element_bytes());
    const ByteBlocks receives(call.recv_blocks, call.element_bytes());
    auto* recv = static_cast<std::byte*>(call.recv);
    const Range own = receives.of(pieces.rank());
    pieces.check_block(collective, pieces.rank(), call.blocks.count(pieces.rank()),
                       call.recv_blocks.count(pieces.rank()));
    copy_unless_same(recv + own.begin,
                     static_cast<const std::byte*>(call.send) + sends.of(pieces.rank()).begin,
                     own.count);
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const int peer = pieces.neighbour(distance);
        const Sent sent = sent_by(pieces, collective, distance, 0);
        pieces.check_block(collective, peer, sent.bytes / call.element_bytes(),
                           call.recv_blocks.count(peer));
        copy_unless_same(recv + receives.of(peer).begin, sent.data, sent.bytes);
    }
    return true;
}

void all_to_all(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const ByteBlocks sends(call.blocks, call.element_bytes());
    const ByteBlocks receives(call.recv_blocks, call.element_bytes());
    auto* recv = static_cast<std::byte*>(call.recv);
    const Range own = receives.of(pieces.rank());
    pieces.check_block(collective, pieces.rank(), call.blocks.count(pieces.rank()),
                       call.recv_blocks.count(pieces.rank()));
    pieces.open(collective, collective.first_piece, Room::entry);
    if (pack_blocks(pieces, collective)) {
        pieces.publish_filled(collective, collective.first_piece);
    } else {
        fill_regions(pieces, collective, 0);
    }
    const std::size_t steps = steps_of_all(pieces, collective);
    copy_unless_same(recv + own.begin,
                     static_cast<const std::byte*>(call.send) + sends.of(pieces.rank()).begin,
                     own.count);
    for (std::size_t step = 1; step <= steps; ++step) {
        if (step < steps)
            fill_regions(pieces, collective, step);
        const std::uint64_t piece = collective.first_piece + step - 1;
        for (int distance = 1; distance < pieces.size(); ++distance) {
            const int peer = pieces.neighbour(distance);
            pieces.await_filled(collective, peer, piece);
            const Range block = receives.of(peer);
            const Sent sent = sent_by(pieces, collective, distance, step - 1);
            pieces.check_block(collective, peer, sent.bytes / call.element_bytes(),
                               call.recv_blocks.count(peer));
            const Range range = piece_of(block.count, region_bytes(pieces), step - 1);
            copy_unless_same(recv + block.begin + range.begin, sent.data, range.count);
        }
        pieces.publish_done(piece);
    }
}

void barrier(Pieces& pieces, const Collective& collective) {
    const std::uint64_t piece = collective.first_piece;
    pieces.open(collective, piece, Room::entry);
    pieces.publish_filled(collective, piece);
    for (int distance = 1; distance < pieces.size(); ++distance)
        pieces.await_filled(collective, pieces.neighbour(distance), piece);
    pieces.publish_done(piece);
}

}  // namespace autolaunch::shm
