// Life of the backend, the bookkeeping of pieces, and the collectives that only copy. reductions.cpp has the others,
// channels.cpp send and recv.
#include "comm/shm/shm_backend.hpp"

#include "base/hash.hpp"
#include "comm/shm/collective.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

namespace autolaunch {

using shm::Kind;
using shm::Range;

namespace {

std::string describe_call(const shm::Descriptor& call) {
    const auto what = fmt::format("{} elements of {}", call.count, name_of(call.type));
    switch (call.kind) {
        case Kind::all_reduce:
            return fmt::format("all_reduce ({}) of {}", name_of(ReduceOp(call.op)), what);
        case Kind::all_gather:
            return "all_gather of " + what;
        case Kind::reduce_scatter:
            return fmt::format("reduce_scatter ({}) of {}", name_of(ReduceOp(call.op)), what);
        case Kind::broadcast:
            return fmt::format("broadcast from rank {} of {}", call.root, what);
        case Kind::all_to_all:
            return "all_to_all of " + what;
        case Kind::barrier:
            return "barrier";
        case Kind::split:
            return "split";
        case Kind::none:
            break;
    }
    return "nothing";
}

}  // namespace

std::shared_ptr<ShmBackend> ShmBackend::create(const ShmRendezvous& rendezvous, int rank, int size,
                                               std::chrono::milliseconds timeout) {
    if (size < 1 || size > shm::kMaxRanks || rank < 0 || rank >= size) {
        throw Error(ErrorCode::invalid_argument, fmt::format("backend shm: rank {} of {} is not possible", rank, size),
                    fmt::format("it takes up to {} ranks", shm::kMaxRanks));
    }
    auto segment = rank == 0 ? shm::Segment::create(size) : shm::Segment::attach(rendezvous.fetch(timeout), size);
    if (rank == 0) rendezvous.publish(segment.address());
    return std::make_shared<ShmBackend>(std::move(segment), rank, size, timeout);
}

ShmBackend::ShmBackend(shm::Segment segment, int rank, int size, std::chrono::milliseconds timeout)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      peers_(segment_, rank, size, timeout),
      inputs_(static_cast<std::size_t>(size)) {
    peers_.gather();
    segment_.close_to_newcomers();
}

Work ShmBackend::start(const CollectiveCall& call, Stream) {
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return all_reduce(call.send, call.recv, call.count, call.type, call.op);
        case CollectiveKind::all_gather:
            return all_gather(call.send, call.recv, call.blocks.each(), call.type);
        case CollectiveKind::reduce_scatter:
            return reduce_scatter(call.send, call.recv, call.blocks.each(), call.type, call.op);
        case CollectiveKind::broadcast:
            return broadcast(call.recv, call.count, call.type, call.root);
        case CollectiveKind::all_to_all:
            return all_to_all(call.send, call.recv, call.blocks.each(), call.type);
        case CollectiveKind::send:
            return send(call.send, call.count, call.type, call.root);
        case CollectiveKind::recv:
            return recv(call.recv, call.count, call.type, call.root);
        default:
            throw Error(ErrorCode::unsupported, describe(call) + " is not there yet");
    }
}

Work ShmBackend::start_group(std::span<const CollectiveCall> calls, Stream) {
    for (const CollectiveCall& call : calls) start(call, {});
    return {};
}

void ShmBackend::abort(const std::string& reason) { peers_.abort(reason); }

CommunicatorStatus ShmBackend::status() const {
    return peers_.aborted() ? CommunicatorStatus::aborted : CommunicatorStatus::ok;
}

ShmBackend::Collective ShmBackend::begin(const char* name, Kind kind, std::size_t count, DataType type, ReduceOp op,
                                         int root) {
    const shm::Operation operation = peers_.begin(name);
    const shm::Descriptor descriptor{history_, count, root, kind, type, op.kind(), 0};
    // Any mixing function will do: the digest meets only digests of other ranks that called almost the same.
    const auto call = count ^ (std::uint64_t(root) << 40) ^ (std::uint64_t(kind) << 56) ^ (std::uint64_t(type) << 52) ^
                      (std::uint64_t(op.kind()) << 60);
    history_ = (history_ ^ call) * 0x9e3779b97f4a7c15ull;
    history_ ^= history_ >> 29;
    return {operation, descriptor, next_piece_};
}

std::byte* ShmBackend::open_piece(const Collective& collective, std::uint64_t piece) {
    if (piece >= shm::kSlots) {
        for (int distance = 1; distance < size_; ++distance) {
            const int peer = neighbour(distance);
            const auto& done = segment_.rank_state(peer).done;
            peers_.wait(peer, collective.operation,
                        [&] { return done.load(std::memory_order_acquire) + shm::kSlots > piece; });
        }
    }
    segment_.rank_state(rank_).descriptors[piece % shm::kSlots] = collective.descriptor;
    return segment_.slot(rank_, piece);
}

void ShmBackend::publish_filled(std::uint64_t piece) { peers_.publish(segment_.rank_state(rank_).filled, piece + 1); }

void ShmBackend::publish_done(std::uint64_t piece) {
    peers_.publish(segment_.rank_state(rank_).done, piece + 1);
    next_piece_ = piece + 1;
}

void ShmBackend::await_filled(const Collective& collective, int peer, std::uint64_t piece) {
    const auto& filled = segment_.rank_state(peer).filled;
    peers_.wait(peer, collective.operation, [&] { return filled.load(std::memory_order_acquire) > piece; });
    check_same(collective, peer, piece);
}

void ShmBackend::await_reduced(const Collective& collective, int peer, std::uint64_t piece) {
    const auto& reduced = segment_.rank_state(peer).reduced;
    peers_.wait(peer, collective.operation, [&] { return reduced.load(std::memory_order_acquire) > piece; });
}

void ShmBackend::check_same(const Collective& collective, int peer, std::uint64_t piece) {
    const shm::Descriptor& theirs = segment_.rank_state(peer).descriptors[piece % shm::kSlots];
    const shm::Descriptor& ours = collective.descriptor;
    if (theirs == ours) return;
    std::string text =
        fmt::format("rank {} calls {}, rank {} {}", rank_, describe_call(ours), peer, describe_call(theirs));
    shm::Descriptor same_past = theirs;
    same_past.history = ours.history;
    if (same_past == ours) {
        text = fmt::format("ranks {} and {} called different collectives some time before this {}", rank_, peer,
                           describe_call(ours));
    }
    peers_.abort_for(ErrorCode::mismatch, text);
    throw Error(ErrorCode::mismatch, text, "all ranks must call the same collectives in the same order");
}

std::size_t ShmBackend::region_elements(DataType type) const noexcept {
    const std::size_t bytes = shm::kSlotBytes / static_cast<std::size_t>(size_);
    return bytes / shm::kSliceAlignment * shm::kSliceAlignment / size_of(type);
}

void ShmBackend::gather_bytes(const Collective& collective, const std::byte* send, std::byte* recv, std::size_t bytes) {
    std::byte* own = recv + static_cast<std::size_t>(rank_) * bytes;
    const std::size_t pieces = shm::pieces_in(bytes, shm::kSlotBytes);
    // Filling runs one piece ahead, so that nobody waits for a neighbour who is only a little late.
    for (std::size_t step = 0; step <= pieces; ++step) {
        if (step < pieces) {
            const Range range = shm::piece_of(bytes, shm::kSlotBytes, step);
            std::byte* slot = open_piece(collective, collective.first_piece + step);
            std::memcpy(slot, send + range.begin, range.count);
            publish_filled(collective.first_piece + step);
            if (own != send) std::memcpy(own + range.begin, send + range.begin, range.count);
        }
        if (step == 0) continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        const Range range = shm::piece_of(bytes, shm::kSlotBytes, step - 1);
        for (int distance = 1; distance < size_; ++distance) {
            const int peer = neighbour(distance);
            await_filled(collective, peer, piece);
            std::memcpy(recv + static_cast<std::size_t>(peer) * bytes + range.begin, segment_.slot(peer, piece),
                        range.count);
        }
        publish_done(piece);
    }
}

Work ShmBackend::all_gather(const void* send, void* recv, std::size_t send_count, DataType type) {
    const auto collective = begin("all_gather", Kind::all_gather, send_count, type, ReduceOp::sum, -1);
    gather_bytes(collective, static_cast<const std::byte*>(send), static_cast<std::byte*>(recv),
                 send_count * size_of(type));
    return {};
}

Work ShmBackend::broadcast(void* buffer, std::size_t count, DataType type, int root) {
    const auto collective = begin("broadcast", Kind::broadcast, count, type, ReduceOp::sum, root);
    auto* data = static_cast<std::byte*>(buffer);
    const std::size_t bytes = count * size_of(type);
    const std::size_t pieces = shm::pieces_in(bytes, shm::kSlotBytes);
    for (std::size_t step = 0; step < pieces; ++step) {
        const std::uint64_t piece = collective.first_piece + step;
        const Range range = shm::piece_of(bytes, shm::kSlotBytes, step);
        if (rank_ == root) {
            std::memcpy(open_piece(collective, piece), data + range.begin, range.count);
            publish_filled(piece);
        } else {
            await_filled(collective, root, piece);
            std::memcpy(data + range.begin, segment_.slot(root, piece), range.count);
        }
        publish_done(piece);
    }
    return {};
}

Work ShmBackend::all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type) {
    const auto collective = begin("all_to_all", Kind::all_to_all, count_per_rank, type, ReduceOp::sum, -1);
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(recv);
    const std::size_t block = count_per_rank * size_of(type);
    const std::size_t region = region_elements(type) * size_of(type);
    const auto at = [&](int peer) { return static_cast<std::size_t>(peer) * block; };
    const std::size_t pieces = shm::pieces_in(block, region);
    for (std::size_t step = 0; step <= pieces; ++step) {
        if (step < pieces) {
            const Range range = shm::piece_of(block, region, step);
            std::byte* slot = open_piece(collective, collective.first_piece + step);
            for (int distance = 1; distance < size_; ++distance) {
                const int peer = neighbour(distance);
                std::memcpy(slot + static_cast<std::size_t>(peer) * region, from + at(peer) + range.begin, range.count);
            }
            publish_filled(collective.first_piece + step);
            if (from != to) std::memcpy(to + at(rank_) + range.begin, from + at(rank_) + range.begin, range.count);
        }
        if (step == 0) continue;
        const std::uint64_t piece = collective.first_piece + step - 1;
        const Range range = shm::piece_of(block, region, step - 1);
        for (int distance = 1; distance < size_; ++distance) {
            const int peer = neighbour(distance);
            await_filled(collective, peer, piece);
            const std::byte* slot = segment_.slot(peer, piece) + static_cast<std::size_t>(rank_) * region;
            std::memcpy(to + at(peer) + range.begin, slot, range.count);
        }
        publish_done(piece);
    }
    return {};
}

void ShmBackend::barrier() {
    const auto collective = begin("barrier", Kind::barrier, 0, DataType::u8, ReduceOp::sum, -1);
    const std::uint64_t piece = collective.first_piece;
    open_piece(collective, piece);
    publish_filled(piece);
    for (int distance = 1; distance < size_; ++distance) await_filled(collective, neighbour(distance), piece);
    publish_done(piece);
}

}  // namespace autolaunch
