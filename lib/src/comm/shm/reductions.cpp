#include "comm/shm/reductions.hpp"

#include "comm/reduce.hpp"
#include "comm/shm/copies.hpp"
#include "comm/shm/ranges.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace autolaunch::shm {
namespace {

// Up to here those who want the result reduce everything themselves: one wait for the others
// instead of two.
constexpr std::size_t kSmallBytes = 16 * 1024;

// Of two ranks: small enough for both slots and both buffers to stay in a core's own cache.
constexpr std::size_t kPairPieceBytes = 128 * 1024;

void run_reduction(Pieces& pieces, const Collective& collective, std::span<void* const> outputs,
                   std::size_t count, bool stream = false) {
    reduce_elements({.inputs = pieces.inputs(),
                     .factors = pieces.factors(collective),
                     .outputs = outputs,
                     .stream = stream},
                    count, collective.call.type, collective.call.op);
}

/// An all_reduce or reduce of more than one slot.
class SlicedReduction {
public:
    SlicedReduction(Pieces& pieces, const Collective& collective, bool reads)
        : pieces_(pieces),
          collective_(collective),
          bytes_(collective.call.element_bytes()),
          send_(static_cast<const std::byte*>(collective.call.send)),
          recv_(reads ? static_cast<std::byte*>(collective.call.recv) : nullptr) {}

    // Three stages, each a piece behind the one before: a rank copies the slices that others reduce
    // into its slot, reduces its own slice of the piece before, and copies the others' results of
    // the piece before that. So each stage has had the time of a whole piece at the others before
    // this rank needs it.
    void run() {
        const std::size_t per_piece = kSlotBytes / bytes_;
        const std::size_t steps = pieces_in(collective_.call.count, per_piece);
        const auto range = [&](std::size_t step) {
            return piece_of(collective_.call.count, per_piece, step);
        };
        for (std::size_t step = 0; step < steps + 2; ++step) {
            const std::uint64_t piece = collective_.first_piece + step;
            if (step < steps)
                fill(piece, range(step));
            if (step >= 1 && step <= steps)
                reduce(piece - 1, range(step - 1));
            if (step >= 2)
                collect(piece - 2, range(step - 2));
        }
    }

private:
    Range slice(Range range, int rank) const {
        return slice_of(range.count, index(pieces_.size()), index(rank), kSliceAlignment / bytes_);
    }

    void fill(std::uint64_t piece, Range range) {
        pieces_.open(collective_, piece, Room::slot);
        std::byte* slot = pieces_.slot(pieces_.rank(), piece);
        const std::byte* send = send_ + range.begin * bytes_;
        for (int distance = 1; distance < pieces_.size(); ++distance) {
            const Range theirs = slice(range, pieces_.neighbour(distance));
            std::memcpy(slot + theirs.begin * bytes_, send + theirs.begin * bytes_,
                        theirs.count * bytes_);
        }
        pieces_.publish_filled(collective_, piece);
    }

    void reduce(std::uint64_t piece, Range range) {
        const Range own = slice(range, pieces_.rank());
        for (int distance = 1; distance < pieces_.size(); ++distance) {
            const int peer = pieces_.neighbour(distance);
            pieces_.await_filled(collective_, peer, piece);
            pieces_.inputs()[index(peer)] = pieces_.slot(peer, piece) + own.begin * bytes_;
        }
        pieces_.inputs()[index(pieces_.rank())] = send_ + (range.begin + own.begin) * bytes_;
        // The own slice's place in the own slot is free: nobody else reduces it.
        std::array<void*, 2> outputs = {pieces_.slot(pieces_.rank(), piece) + own.begin * bytes_,
                                        nullptr};
        std::size_t count = 1;
        if (recv_ != nullptr)
            outputs[count++] = recv_ + (range.begin + own.begin) * bytes_;
        // A reduce's root is the only one who reads, and has its own slice already.
        const bool alone = recv_ != nullptr && collective_.call.kind == CollectiveKind::reduce;
        run_reduction(pieces_, collective_,
                      std::span(outputs).subspan(alone ? 1 : 0, alone ? 1 : count), own.count);
        pieces_.publish_reduced(piece);
    }

    void collect(std::uint64_t piece, Range range) {
        for (int distance = 1; distance < pieces_.size() && recv_ != nullptr; ++distance) {
            const int peer = pieces_.neighbour(distance);
            pieces_.await_reduced(collective_, peer, piece);
            const Range theirs = slice(range, peer);
            std::memcpy(recv_ + (range.begin + theirs.begin) * bytes_,
                        pieces_.slot(peer, piece) + theirs.begin * bytes_, theirs.count * bytes_);
        }
        pieces_.publish_done(piece);
    }

    Pieces& pieces_;
    const Collective& collective_;
    std::size_t bytes_;
    const std::byte* send_;
    std::byte* recv_;  // null where the result is not wanted
};

/// Every rank shows all of its data in one piece, and reduces what it wants of the others'.
void reduce_at_once(Pieces& pieces, const Collective& collective, std::size_t total, Range wanted) {
    const CollectiveCall& call = collective.call;
    const std::size_t bytes = call.element_bytes();
    const std::uint64_t piece = collective.first_piece;
    pieces.open(collective, piece, room_for(total * bytes));
    if (total != 0)
        std::memcpy(pieces.room(pieces.rank(), piece, total * bytes), call.send, total * bytes);
    pieces.publish_filled(collective, piece);
    for (int distance = 1; distance < pieces.size() && wanted.count != 0; ++distance) {
        const int peer = pieces.neighbour(distance);
        pieces.await_filled(collective, peer, piece);
        pieces.inputs()[index(peer)] =
            pieces.room(peer, piece, total * bytes) + wanted.begin * bytes;
    }
    pieces.inputs()[index(pieces.rank())] =
        static_cast<const std::byte*>(call.send) + wanted.begin * bytes;
    void* const output = call.recv;
    if (wanted.count != 0)
        run_reduction(pieces, collective, {&output, 1}, wanted.count);
    pieces.publish_done(piece);
}

/// An all_reduce of two ranks: each shows all of its data, piece by piece, and reduces all. The two
/// together move as many bytes from core to core as with slices, but wait for each other half as
/// often.
void reduce_both(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const std::size_t bytes = call.element_bytes(), per_piece = kPairPieceBytes / bytes;
    const std::size_t steps = pieces_in(call.count, per_piece);
    const int peer = pieces.neighbour(1);
    const bool stream = worth_streaming(call);
    const auto* send = static_cast<const std::byte*>(call.send);
    auto* recv = static_cast<std::byte*>(call.recv);
    for (std::size_t step = 0; step <= steps; ++step) {
        if (step < steps) {
            const std::uint64_t piece = collective.first_piece + step;
            const Range range = piece_of(call.count, per_piece, step);
            pieces.open(collective, piece, Room::slot);
            std::memcpy(pieces.slot(pieces.rank(), piece), send + range.begin * bytes,
                        range.count * bytes);
            pieces.publish_filled(collective, piece);
        }
        if (step == 0)
            continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        const Range range = piece_of(call.count, per_piece, step - 1);
        pieces.await_filled(collective, peer, piece);
        pieces.inputs()[index(peer)] = pieces.slot(peer, piece);
        pieces.inputs()[index(pieces.rank())] = send + range.begin * bytes;
        void* const output = recv + range.begin * bytes;
        run_reduction(pieces, collective, {&output, 1}, range.count, stream);
        pieces.publish_done(piece);
    }
}

}  // namespace

void reduce_to_readers(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const bool reads = call.kind == CollectiveKind::all_reduce || pieces.rank() == call.root;
    if (call.count * call.element_bytes() <= kSmallBytes) {
        reduce_at_once(pieces, collective, call.count, {0, reads ? call.count : 0});
    } else if (pieces.size() == 2 && call.kind == CollectiveKind::all_reduce) {
        reduce_both(pieces, collective);
    } else {
        SlicedReduction(pieces, collective, reads).run();
    }
}

void reduce_scatter(Pieces& pieces, const Collective& collective) {
    const CollectiveCall& call = collective.call;
    const std::size_t bytes = call.element_bytes();
    const Range own{call.blocks.offset(pieces.rank()), call.blocks.count(pieces.rank())};
    if (call.blocks.total() * bytes <= kSmallBytes)
        return reduce_at_once(pieces, collective, call.blocks.total(), own);
    const std::size_t per_piece = region_bytes(pieces) / bytes;
    const std::size_t steps = std::max<std::size_t>(1, pieces_in(call.blocks.longest(), per_piece));
    const auto* send = static_cast<const std::byte*>(call.send);
    auto* recv = static_cast<std::byte*>(call.recv);
    for (std::size_t step = 0; step <= steps; ++step) {
        if (step < steps)
            fill_regions(pieces, collective, step);
        if (step == 0)
            continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        const Range range = piece_of(own.count, per_piece, step - 1);
        for (int distance = 1; distance < pieces.size(); ++distance) {
            const int peer = pieces.neighbour(distance);
            pieces.await_filled(collective, peer, piece);
            pieces.inputs()[index(peer)] = region(pieces, pieces.slot(peer, piece), pieces.rank());
        }
        pieces.inputs()[index(pieces.rank())] = send + (own.begin + range.begin) * bytes;
        void* const output = recv + range.begin * bytes;
        run_reduction(pieces, collective, {&output, 1}, range.count, worth_streaming(call));
        pieces.publish_done(piece);
    }
}

}  // namespace autolaunch::shm
