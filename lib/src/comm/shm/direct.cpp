#include "comm/shm/direct.hpp"

#include "base/stream_bytes.hpp"
#include "comm/reduce.hpp"
#include "comm/shm/copies.hpp"
#include "comm/shm/ranges.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace autolaunch::shm {
namespace {

// Below, one wait for the others through the slots is quicker than two.
constexpr std::size_t kDirectBytes = 16 * 1024;

/// Of an all_to_all: where in its send buffer a rank has the block for another; in its slot, one
/// for each rank.
struct BlockPlace {
    std::uint64_t offset;
    std::uint64_t count;
};

/// The buffers that others read or write.
struct Reached {
    bool send;
    bool recv;
};

Reached reached(const CollectiveCall& call, bool is_root, bool in_place) {
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return {true, true};
        case CollectiveKind::reduce:
            return {true, is_root};
        case CollectiveKind::reduce_scatter:
        case CollectiveKind::all_gather:
            return {true, false};
        case CollectiveKind::all_to_all:
            return {true, in_place};
        case CollectiveKind::scatter:
            return {is_root, false};
        case CollectiveKind::broadcast:
        case CollectiveKind::gather:
            return {false, is_root};
        case CollectiveKind::send:
        case CollectiveKind::recv:
            break;
    }
    return {false, false};
}

/// One call, once all ranks can reach what they need.
class DirectCall {
public:
    DirectCall(Pieces& pieces, const Collective& collective, const Allocations& allocations)
        : pieces_(pieces),
          collective_(collective),
          call_(collective.call),
          allocations_(allocations),
          rank_(pieces.rank()),
          size_(pieces.size()),
          bytes_(collective.call.element_bytes()),
          streams_(worth_streaming(collective.call)) {}

    void run() {
        switch (call_.kind) {
            case CollectiveKind::all_reduce:
            case CollectiveKind::reduce:
                return reduce_slice();
            case CollectiveKind::reduce_scatter:
                return reduce_block();
            case CollectiveKind::broadcast:
                if (rank_ != call_.root)
                    copy_bytes(own_recv(), recv_of(call_.root), call_.count * bytes_);
                return;
            case CollectiveKind::all_gather:
                return gather_blocks();
            case CollectiveKind::gather:
                return copy_bytes(recv_of(call_.root) + offset(rank_), own_send(), block(rank_));
            case CollectiveKind::scatter:
                return copy_bytes(own_recv(), send_of(call_.root) + offset(rank_), block(rank_));
            case CollectiveKind::all_to_all:
                return call_.send == call_.recv ? swap_blocks() : exchange_blocks();
            case CollectiveKind::send:
            case CollectiveKind::recv:
                return;
        }
    }

private:
    const std::byte* own_send() const { return static_cast<const std::byte*>(call_.send); }
    std::byte* own_recv() const { return static_cast<std::byte*>(call_.recv); }
    const Descriptor& descriptor(int peer) const {
        return pieces_.descriptor(peer, collective_.first_piece);
    }
    const std::byte* send_of(int peer) const {
        return peer == rank_ ? own_send() : allocations_.at(peer, descriptor(peer).send);
    }
    std::byte* recv_of(int peer) const {
        return peer == rank_ ? own_recv() : allocations_.at(peer, descriptor(peer).recv);
    }
    std::size_t offset(int rank) const { return call_.blocks.offset(rank) * bytes_; }
    std::size_t block(int rank) const { return call_.blocks.count(rank) * bytes_; }

    void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) const {
        if (bytes == 0 || to == from)
            return;
        streams_ ? stream_bytes(to, from, bytes) : static_cast<void>(std::memcpy(to, from, bytes));
    }

    // Slice r of all inputs, by rank r, to everybody who wants the result. Nobody else touches
    // these elements, so in place is no different.
    void reduce_slice() {
        const Range slice =
            slice_of(call_.count, index(size_), index(rank_), kSliceAlignment / bytes_);
        const std::size_t begin = slice.begin * bytes_;
        std::vector<void*> outputs;
        for (int distance = 0; distance < size_; ++distance) {
            const int peer = pieces_.neighbour(distance);
            if (call_.kind == CollectiveKind::all_reduce || peer == call_.root)
                outputs.push_back(recv_of(peer) + begin);
        }
        for (int peer = 0; peer < size_; ++peer)
            pieces_.inputs()[index(peer)] = send_of(peer) + begin;
        reduce(outputs, slice.count);
    }

    void reduce_block() {
        for (int peer = 0; peer < size_; ++peer)
            pieces_.inputs()[index(peer)] = send_of(peer) + offset(rank_);
        void* const output = call_.recv;
        reduce({&output, 1}, call_.blocks.count(rank_));
    }

    void reduce(std::span<void* const> outputs, std::size_t count) {
        if (count == 0)
            return;
        reduce_elements({.inputs = pieces_.inputs(),
                         .factors = pieces_.factors(collective_),
                         .outputs = outputs,
                         .stream = streams_},
                        count, call_.type, call_.op);
    }

    void gather_blocks() {
        for (int distance = 0; distance < size_; ++distance) {
            const int peer = pieces_.neighbour(distance);
            if (block(peer) != 0)
                copy_bytes(own_recv() + offset(peer), send_of(peer), block(peer));
        }
    }

    void exchange_blocks() {
        for (int distance = 0; distance < size_; ++distance) {
            const int peer = pieces_.neighbour(distance);
            const auto* places =
                reinterpret_cast<const BlockPlace*>(pieces_.slot(peer, collective_.first_piece));
            const std::size_t count = call_.recv_blocks.count(peer);
            if (count == 0)
                continue;
            copy_bytes(own_recv() + call_.recv_blocks.offset(peer) * bytes_,
                       send_of(peer) + places[index(rank_)].offset * bytes_, count * bytes_);
        }
    }

    // Two ranks swap their blocks for each other: the lower one the first half, the higher one the
    // rest.
    void swap_blocks() {
        const std::size_t all = block(rank_), half = all / 2;
        for (int distance = 1; distance < size_; ++distance) {
            const int peer = pieces_.neighbour(distance);
            std::byte* mine = own_recv() + offset(peer);
            std::byte* theirs = recv_of(peer) + offset(rank_);
            const Range part = rank_ < peer ? Range{0, half} : Range{half, all - half};
            std::swap_ranges(mine + part.begin, mine + part.begin + part.count,
                             theirs + part.begin);
        }
    }

    Pieces& pieces_;
    const Collective& collective_;
    const CollectiveCall& call_;
    const Allocations& allocations_;
    int rank_;
    int size_;
    std::size_t bytes_;
    bool streams_;
};

void locate(const CollectiveCall& call, int rank, const Allocations& allocations,
            Descriptor& descriptor) {
    const BufferExtents extents = extents_of(call, rank);
    const Reached wanted = reached(call, rank == call.root, call.send == call.recv);
    const auto find = [&](const void* data, std::size_t count, bool is_reached) {
        return is_reached && count != 0 ? allocations.find(data, count * call.element_bytes())
                                        : Location{};
    };
    descriptor.send = find(call.send, extents.send, wanted.send);
    descriptor.recv = find(call.recv, extents.recv, wanted.recv);
    const auto found = [](const Location& location, std::size_t count, bool is_reached) {
        return !is_reached || count == 0 || location.allocation != Location::kElsewhere;
    };
    descriptor.is_direct = found(descriptor.send, extents.send, wanted.send) &&
                           found(descriptor.recv, extents.recv, wanted.recv);
    descriptor.in_place =
        call.kind == CollectiveKind::all_to_all && call.send == call.recv && extents.send != 0;
}

void write_places(const CollectiveCall& call, int size, std::byte* slot) {
    auto* places = reinterpret_cast<BlockPlace*>(slot);
    for (int peer = 0; peer < size; ++peer)
        places[index(peer)] = {call.blocks.offset(peer), call.blocks.count(peer)};
}

// All ranks come to the same answer: each that is able waits to hear from all, and each that is not
// need not.
bool all_direct(Pieces& pieces, const Collective& collective) {
    const Descriptor& own = collective.descriptor;
    bool able = own.is_direct;
    for (int distance = 1; distance < pieces.size() && able; ++distance) {
        const int peer = pieces.neighbour(distance);
        pieces.await_filled(collective, peer, collective.first_piece);
        const Descriptor& theirs = pieces.descriptor(peer, collective.first_piece);
        able = theirs.is_direct && theirs.in_place == own.in_place;
    }
    return able;
}

}  // namespace

bool asks_for_direct(const CollectiveCall& call) noexcept {
    // An all_to_all's size differs between ranks.
    return call.kind == CollectiveKind::all_to_all || bytes_of(call) > kDirectBytes;
}

bool run_direct(Pieces& pieces, Collective& collective, const Allocations& allocations) {
    const CollectiveCall& call = collective.call;
    const std::uint64_t piece = collective.first_piece;
    locate(call, pieces.rank(), allocations, collective.descriptor);
    const bool has_table = call.kind == CollectiveKind::all_to_all;
    pieces.open(collective, piece, has_table ? Room::slot : Room::entry);
    if (has_table)
        write_places(call, pieces.size(), pieces.slot(pieces.rank(), piece));
    const bool packed = has_table && pack_blocks(pieces, collective);
    pieces.publish_filled(collective, piece);
    if (packed && exchange_packed(pieces, collective)) {
        pieces.publish_done(piece);
        return true;
    }
    const bool direct = all_direct(pieces, collective);
    if (direct) {
        if (call.kind == CollectiveKind::all_to_all) {
            for (int peer = 0; peer < pieces.size(); ++peer) {
                const auto* places = reinterpret_cast<const BlockPlace*>(pieces.slot(peer, piece));
                pieces.check_block(collective, peer, places[index(pieces.rank())].count,
                                   call.recv_blocks.count(peer));
            }
        }
        DirectCall(pieces, collective, allocations).run();
    }
    pieces.publish_done(piece);
    if (direct)
        pieces.await_done(collective, piece);
    ++collective.first_piece;
    return direct;
}

}  // namespace autolaunch::shm
