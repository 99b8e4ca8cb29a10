#include "comm/shm/copies.hpp"

#include <algorithm>
#include <cstring>

namespace autolaunch::shm {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

/// Where blocks lie in a buffer that has one of every rank, in bytes.
class ByteBlocks {
public:
    ByteBlocks(const BlockCounts& counts, std::size_t element_bytes) : counts_(counts), element_bytes_(element_bytes) {}
    Range of(int rank) const { return {counts_.offset(rank) * element_bytes_, counts_.count(rank) * element_bytes_}; }
    std::size_t longest() const { return counts_.longest() * element_bytes_; }

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

// Every rank's block, through its slots, to all that read. Filling runs one piece ahead, so that nobody waits for a
// neighbour who is only a little late. `recv` is null where nothing is read.
template <class Blocks>
void share_blocks(Pieces& pieces, const Collective& collective, const Blocks& blocks, const std::byte* send,
                  std::byte* recv) {
    const Range own = blocks.of(pieces.rank());
    const std::size_t steps = at_least_one(pieces_in(blocks.longest(), kSlotBytes));
    for (std::size_t step = 0; step <= steps; ++step) {
        const Range mine = piece_of(own.count, kSlotBytes, step);
        if (step == 0 || mine.count != 0) {
            const std::uint64_t piece = collective.first_piece + step;
            pieces.open(collective, piece, room_for(blocks.longest()));
            copy_bytes(pieces.room(pieces.rank(), piece, blocks.longest()), send + mine.begin, mine.count);
            pieces.publish_filled(collective, piece);
            if (recv != nullptr) copy_bytes(recv + own.begin + mine.begin, send + mine.begin, mine.count);
        }
        if (step == 0) continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        for (int distance = 1; distance < pieces.size() && recv != nullptr; ++distance) {
            const int peer = pieces.neighbour(distance);
            const Range block = blocks.of(peer);
            const Range range = piece_of(block.count, kSlotBytes, step - 1);
            if (range.count == 0) continue;
            pieces.await_filled(collective, peer, piece);
            copy_bytes(recv + block.begin + range.begin, pieces.room(peer, piece, blocks.longest()), range.count);
        }
        pieces.publish_done(piece);
    }
}

std::uint64_t& header_of(std::byte* region) { return *reinterpret_cast<std::uint64_t*>(region - kRegionHeaderBytes); }

// The ranks' counts differ, so how many pieces there are is known only when all have said what their longest block is.
std::size_t steps_of_all(Pieces& pieces, const Collective& collective) {
    std::size_t longest = collective.descriptor.longest;
    for (int distance = 1; distance < pieces.size(); ++distance) {
        const int peer = pieces.neighbour(distance);
        pieces.await_filled(collective, peer, collective.first_piece);
        longest = std::max<std::size_t>(longest, pieces.descriptor(peer, collective.first_piece).longest);
    }
    return at_least_one(pieces_in(longest, region_bytes(pieces)));
}

}  // namespace

std::size_t region_bytes(const Pieces& pieces) noexcept {
    const std::size_t whole = kSlotBytes / static_cast<std::size_t>(pieces.size());
    return whole / kSliceAlignment * kSliceAlignment - kRegionHeaderBytes;
}

std::byte* region(const Pieces& pieces, std::byte* slot, int to) noexcept {
    return slot + static_cast<std::size_t>(to) * (region_bytes(pieces) + kRegionHeaderBytes) + kRegionHeaderBytes;
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
        copy_bytes(to, send + block.begin + range.begin, range.count);
    }
    pieces.publish_filled(collective, piece);
}

void broadcast(Pieces& pieces, const Collective& collective) {
    auto* data = static_cast<std::byte*>(collective.call.recv);
    const RootBlock block(collective.call.root, collective.call.count * collective.call.element_bytes());
    share_blocks(pieces, collective, block, data, pieces.rank() == collective.call.root ? nullptr : data);
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
    const Range own = blocks.of(pieces.rank());
    auto* recv = static_cast<std::byte*>(call.recv);
    const std::size_t steps = at_least_one(pieces_in(blocks.longest(), region_bytes(pieces)));
    for (std::size_t step = 0; step < steps; ++step) {
        const std::uint64_t piece = collective.first_piece + step;
        const Range range = piece_of(own.count, region_bytes(pieces), step);
        if (pieces.rank() == call.root) {
            fill_regions(pieces, collective, step);
            copy_bytes(recv + range.begin, static_cast<const std::byte*>(call.send) + own.begin + range.begin,
                       range.count);
        } else {
            if (step == 0) {
                pieces.open(collective, piece, Room::entry);
                pieces.publish_filled(collective, piece);
            }
            if (step == 0 || range.count != 0) pieces.await_filled(collective, call.root, piece);
            copy_bytes(recv + range.begin, region(pieces, pieces.slot(call.root, piece), pieces.rank()), range.count);
        }
        pieces.publish_done(piece);
    }
}

void all_to_all(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const ByteBlocks sends(call.blocks, call.element_bytes());
    const ByteBlocks receives(call.recv_blocks, call.element_bytes());
    auto* recv = static_cast<std::byte*>(call.recv);
    const Range own = receives.of(pieces.rank());
    pieces.check_block(collective, pieces.rank(), call.blocks.count(pieces.rank()),
                       call.recv_blocks.count(pieces.rank()));
    fill_regions(pieces, collective, 0);
    const std::size_t steps = steps_of_all(pieces, collective);
    copy_bytes(recv + own.begin, static_cast<const std::byte*>(call.send) + sends.of(pieces.rank()).begin, own.count);
    for (std::size_t step = 1; step <= steps; ++step) {
        if (step < steps) fill_regions(pieces, collective, step);
        const std::uint64_t piece = collective.first_piece + step - 1;
        for (int distance = 1; distance < pieces.size(); ++distance) {
            const int peer = pieces.neighbour(distance);
            pieces.await_filled(collective, peer, piece);
            const Range block = receives.of(peer);
            std::byte* from = region(pieces, pieces.slot(peer, piece), pieces.rank());
            pieces.check_block(collective, peer, header_of(from) / call.element_bytes(), call.recv_blocks.count(peer));
            const Range range = piece_of(block.count, region_bytes(pieces), step - 1);
            copy_bytes(recv + block.begin + range.begin, from, range.count);
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
