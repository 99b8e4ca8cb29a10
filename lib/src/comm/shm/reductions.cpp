// all_reduce and reduce_scatter on the shm backend.
#include "comm/reduce.hpp"
#include "comm/shm/collective.hpp"
#include "comm/shm/shm_backend.hpp"

#include <array>
#include <cstring>

namespace autolaunch {

using shm::Kind;
using shm::Range;

namespace {

// Up to here every rank reduces everything itself: one wait for the others instead of two.
constexpr std::size_t kSmallBytes = 16 * 1024;

}  // namespace

Work ShmBackend::all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
    const auto collective = begin("all_reduce", Kind::all_reduce, count, type, op, -1);
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(recv);
    if (count == 0) return {};
    if (count * size_of(type) <= kSmallBytes) {
        all_reduce_small(collective, from, to);
    } else {
        all_reduce_large(collective, from, to);
    }
    return {};
}

void ShmBackend::all_reduce_small(const Collective& collective, const std::byte* send, std::byte* recv) {
    const std::uint64_t piece = collective.first_piece;
    const std::size_t count = collective.descriptor.count;
    std::memcpy(open_piece(collective, piece), send, count * collective.element_bytes());
    publish_filled(piece);
    for (int distance = 1; distance < size_; ++distance) await_filled(collective, neighbour(distance), piece);
    for (int peer = 0; peer < size_; ++peer) inputs_[static_cast<std::size_t>(peer)] = segment_.slot(peer, piece);
    inputs_[static_cast<std::size_t>(rank_)] = send;
    void* const output = recv;
    reduce_elements({.inputs = inputs_, .outputs = {&output, 1}}, count, collective.type(),
                    ReduceOp(collective.descriptor.op));
    publish_done(piece);
}

// Three stages, each a piece behind the one before: a rank copies the slices that others reduce into its slot, reduces
// its own slice of the piece before, and copies the others' results of the piece before that. So each stage has had the
// time of a whole piece at the others before this rank needs it.
void ShmBackend::all_reduce_large(const Collective& collective, const std::byte* send, std::byte* recv) {
    const std::size_t count = collective.descriptor.count;
    const std::size_t per_piece = region_elements(collective.type()) * static_cast<std::size_t>(size_);
    const std::size_t pieces = shm::pieces_in(count, per_piece);
    const auto range = [&](std::size_t index) { return shm::piece_of(count, per_piece, index); };
    const auto offset = [&](std::size_t index) { return range(index).begin * collective.element_bytes(); };
    for (std::size_t step = 0; step < pieces + 2; ++step) {
        const std::uint64_t piece = collective.first_piece + step;
        if (step < pieces) fill_slices(collective, piece, send + offset(step), range(step).count);
        if (step >= 1 && step <= pieces) {
            reduce_slice(collective, piece - 1, send + offset(step - 1), recv + offset(step - 1),
                         range(step - 1).count);
        }
        if (step >= 2) collect_slices(collective, piece - 2, recv + offset(step - 2), range(step - 2).count);
    }
}

void ShmBackend::fill_slices(const Collective& collective, std::uint64_t piece, const std::byte* send,
                             std::size_t count) {
    const std::size_t bytes = collective.element_bytes();
    const auto ranks = static_cast<std::size_t>(size_);
    std::byte* slot = open_piece(collective, piece);
    for (int distance = 1; distance < size_; ++distance) {
        const auto peer = static_cast<std::size_t>(neighbour(distance));
        const Range slice = shm::slice_of(count, ranks, peer, shm::kSliceAlignment / bytes);
        std::memcpy(slot + slice.begin * bytes, send + slice.begin * bytes, slice.count * bytes);
    }
    publish_filled(piece);
}

void ShmBackend::reduce_slice(const Collective& collective, std::uint64_t piece, const std::byte* send, std::byte* recv,
                              std::size_t count) {
    const std::size_t bytes = collective.element_bytes();
    const auto own = static_cast<std::size_t>(rank_);
    const Range slice = shm::slice_of(count, static_cast<std::size_t>(size_), own, shm::kSliceAlignment / bytes);
    for (int distance = 1; distance < size_; ++distance) {
        const int peer = neighbour(distance);
        await_filled(collective, peer, piece);
        inputs_[static_cast<std::size_t>(peer)] = segment_.slot(peer, piece) + slice.begin * bytes;
    }
    inputs_[own] = send + slice.begin * bytes;
    // The own slice's place in the own slot is free: nobody else reduces it.
    const std::array<void*, 2> outputs = {recv + slice.begin * bytes,
                                          segment_.slot(rank_, piece) + slice.begin * bytes};
    reduce_elements({.inputs = inputs_, .outputs = outputs}, slice.count, collective.type(),
                    ReduceOp(collective.descriptor.op));
    peers_.publish(segment_.rank_state(rank_).reduced, piece + 1);
}

void ShmBackend::collect_slices(const Collective& collective, std::uint64_t piece, std::byte* recv, std::size_t count) {
    const std::size_t bytes = collective.element_bytes();
    for (int distance = 1; distance < size_; ++distance) {
        const int peer = neighbour(distance);
        await_reduced(collective, peer, piece);
        const Range slice = shm::slice_of(count, static_cast<std::size_t>(size_), static_cast<std::size_t>(peer),
                                          shm::kSliceAlignment / bytes);
        std::memcpy(recv + slice.begin * bytes, segment_.slot(peer, piece) + slice.begin * bytes, slice.count * bytes);
    }
    publish_done(piece);
}

Work ShmBackend::reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op) {
    const auto collective = begin("reduce_scatter", Kind::reduce_scatter, recv_count, type, op, -1);
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(recv);
    const std::size_t bytes = size_of(type);
    const std::size_t region = region_elements(type);
    const std::size_t pieces = shm::pieces_in(recv_count, region);
    const auto at = [&](int peer, std::size_t element) {
        return (static_cast<std::size_t>(peer) * recv_count + element) * bytes;
    };
    for (std::size_t step = 0; step <= pieces; ++step) {
        if (step < pieces) {
            const Range range = shm::piece_of(recv_count, region, step);
            std::byte* slot = open_piece(collective, collective.first_piece + step);
            for (int distance = 1; distance < size_; ++distance) {
                const int peer = neighbour(distance);
                std::memcpy(slot + static_cast<std::size_t>(peer) * region * bytes, from + at(peer, range.begin),
                            range.count * bytes);
            }
            publish_filled(collective.first_piece + step);
        }
        if (step == 0) continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        const Range range = shm::piece_of(recv_count, region, step - 1);
        for (int distance = 1; distance < size_; ++distance) {
            const int peer = neighbour(distance);
            await_filled(collective, peer, piece);
            inputs_[static_cast<std::size_t>(peer)] =
                segment_.slot(peer, piece) + static_cast<std::size_t>(rank_) * region * bytes;
        }
        inputs_[static_cast<std::size_t>(rank_)] = from + at(rank_, range.begin);
        void* const output = to + range.begin * bytes;
        reduce_elements({.inputs = inputs_, .outputs = {&output, 1}}, range.count, type, op);
        publish_done(piece);
    }
    return {};
}

}  // namespace autolaunch
