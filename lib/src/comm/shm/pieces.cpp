#include "comm/shm/pieces.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace autolaunch::shm {
namespace {

std::uint64_t digest_of(const BlockCounts& blocks, int size) {
    if (blocks.is_uniform())
        return 0;
    std::uint64_t digest = 0;
    for (int rank = 0; rank < size; ++rank) {
        const std::uint64_t parts[2] = {digest, blocks.count(rank)};
        digest = hash64(parts, sizeof parts);
    }
    return digest | 1;
}

// Any mixing function will do: the digest meets only digests of other ranks that called almost the
// same.
std::uint64_t mix(std::uint64_t digest, std::uint64_t word) {
    digest = (digest ^ word) * 0x9e3779b97f4a7c15ull;
    return digest ^ (digest >> 29);
}

// The others have read the entry some pieces ago: to take its lines back takes as long as to hand
// them on.
void prepare_to_write([[maybe_unused]] Entry& entry) {
#if defined(__x86_64__)
    constexpr std::size_t kUsual = 576;  // calls of up to half a KiB
    auto* bytes = reinterpret_cast<std::byte*>(&entry);
    for (std::size_t at = 0; at < kUsual; at += 64)
        asm volatile("prefetchw %0" : : "m"(bytes[at]));
#endif
}

// In a collective with a root, those who only give run ahead: what was there at once is probably
// followed by more.
constexpr std::uint64_t kReadAhead = 3;

void prepare_to_read(const Entry& entry, std::size_t bytes) {
    const auto* from = reinterpret_cast<const std::byte*>(&entry);
    const std::size_t end = std::min(bytes + offsetof(Entry, payload), sizeof entry);
    for (std::size_t at = 0; at < end; at += 64)
        __builtin_prefetch(from + at);
}

bool has_blocks(CollectiveKind kind) {
    return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
           kind == CollectiveKind::all_to_all || kind == CollectiveKind::gather ||
           kind == CollectiveKind::scatter;
}

std::string_view name_of(Kind kind) {
    switch (kind) {
        case Kind::split:
            return "split";
        case Kind::allocate:
            return "allocate";
        case Kind::barrier:
            return "barrier";
    }
    return autolaunch::name_of(static_cast<CollectiveKind>(kind));
}

// What is equal on all ranks. It does not wait for the digest of the calls before.
std::uint64_t digest_of(const Descriptor& call) {
    const std::uint64_t what =
        std::uint64_t(call.kind) | std::uint64_t(call.type) << 8 | std::uint64_t(call.op) << 16;
    const std::uint64_t root = static_cast<std::uint32_t>(call.root);
    const bool counts_differ = call.kind == kind_of(CollectiveKind::all_to_all);
    return (what | root << 32) ^ (counts_differ ? 0 : mix(call.count, call.counts));
}

void fill(Descriptor& descriptor, const CollectiveCall& call, Kind kind, int size) {
    const bool blocks = has_blocks(call.kind);
    descriptor.count = !blocks                    ? call.count
                       : call.blocks.is_uniform() ? call.blocks.each()
                                                  : call.blocks.total();
    if (blocks)
        descriptor.counts = digest_of(call.blocks, size);
    descriptor.root = call.root;
    descriptor.kind = kind;
    descriptor.type = call.type;
    if (reduces(call.kind))
        descriptor.op = call.op.kind();
    descriptor.factor = call.op.factor();
}

std::string describe_call(const Descriptor& call) {
    if (call.kind >= Kind::barrier)
        return std::string(name_of(call.kind));
    const auto kind = static_cast<CollectiveKind>(call.kind);
    if (call.counts != 0) {
        std::string text = fmt::format("{} of ragged blocks, together {} elements of {}",
                                       name_of(kind), call.count, name_of(call.type));
        return reduces(kind) ? fmt::format("{} ({})", text, name_of(ReduceOp(call.op))) : text;
    }
    return describe({.kind = kind,
                     .count = call.count,
                     .blocks = BlockCounts::uniform(call.count, 1),
                     .type = call.type,
                     .op = ReduceOp(call.op),
                     .root = call.root});
}

}  // namespace

bool worth_streaming(const CollectiveCall& call) noexcept {
    constexpr std::size_t kCacheBytes =
        4 << 20;  // a core's own cache and its share of the common one, about
    return call.send != call.recv && bytes_of(call) > kCacheBytes / 2;
}

Pieces::Pieces(const Segment& segment, Peers& peers, int rank, int size)
    : segment_(segment),
      peers_(peers),
      rank_(rank),
      size_(size),
      known_done_(static_cast<std::size_t>(size)),
      inputs_(static_cast<std::size_t>(size)),
      factors_(static_cast<std::size_t>(size)) {}

Collective Pieces::begin(const CollectiveCall& call, Kind kind) {
    Collective collective{call, peers_.begin(name_of(kind)), {}, next_piece_};
    Descriptor& descriptor = collective.descriptor;
    fill(descriptor, call, kind, size_);
    digest_ = mix(digest_, digest_of(descriptor));
    is_short_ = room_for(bytes_of(call)) == Room::entry;
    factors_[static_cast<std::size_t>(rank_)] = descriptor.factor;
    return collective;
}

// The entry and the slot are free when all others are done with the piece that was in them.
void Pieces::open(const Collective& collective, std::uint64_t piece, Room room) {
    const std::size_t ring = room == Room::entry ? kEntries : kSlots;
    if (room == Room::slot && !has_slots_) {
        segment_.take_slots(rank_);
        has_slots_ = true;
    }
    if (piece < ring)
        return;
    const std::uint64_t needed = piece + 1 - ring;
    for (int distance = 1; distance < size_; ++distance) {
        const int peer = neighbour(distance);
        std::uint64_t& known = known_done_[static_cast<std::size_t>(peer)];
        if (known >= needed)
            continue;
        const auto& done = segment_.rank_state(peer).done;
        peers_.wait(peer, collective.operation, [&] {
            known = done.load(std::memory_order_acquire);
            return known >= needed;
        });
    }
}

void Pieces::publish_filled(const Collective& collective, std::uint64_t piece) {
    if (piece == collective.first_piece)
        return enter(collective);
    peers_.publish(segment_.rank_state(rank_).filled, piece + 1);
}

// Those who sleep are woken when this rank itself has to wait, or is done with the piece: until
// then the cache line is on its way, and a fence would wait for it.
void Pieces::enter(const Collective& collective) {
    Entry& entry = segment_.entry(rank_, collective.first_piece);
    entry.digest = digest_;
    entry.descriptor = collective.descriptor;
    peers_.publish_quietly(entry.written, collective.first_piece + 1);
}

void Pieces::publish_reduced(std::uint64_t piece) {
    peers_.publish(segment_.rank_state(rank_).reduced, piece + 1);
}

void Pieces::publish_done(std::uint64_t piece) {
    auto& done = segment_.rank_state(rank_).done;
    is_short_ ? peers_.publish_lightly(done, piece + 1) : peers_.publish(done, piece + 1);
    next_piece_ = piece + 1;
    prepare_to_write(segment_.entry(rank_, next_piece_));
}

void Pieces::await_filled(const Collective& collective, int peer, std::uint64_t piece) {
    if (piece == collective.first_piece)
        return await_entered(collective, peer);
    const auto& filled = segment_.rank_state(peer).filled;
    peers_.wait(peer, collective.operation,
                [&] { return filled.load(std::memory_order_acquire) > piece; });
}

void Pieces::await_entered(const Collective& collective, int peer) {
    const Entry& entry = segment_.entry(peer, collective.first_piece);
    const auto is_there = [&] {
        return entry.written.load(std::memory_order_acquire) > collective.first_piece;
    };
    if (!is_there()) {
        peers_.wait(peer, collective.operation, is_there);
    } else if (collective.call.root >= 0) {
        prepare_to_read(segment_.entry(peer, collective.first_piece + kReadAhead),
                        bytes_of(collective.call));
    }
    if (entry.digest != digest_)
        fail_different(collective, peer);
    // Who is in this call is done with all before it.
    std::uint64_t& known = known_done_[static_cast<std::size_t>(peer)];
    known = std::max(known, collective.first_piece);
    if (collective.descriptor.op == ReduceOp::Kind::pre_multiplied_sum)
        factors_[static_cast<std::size_t>(peer)] = entry.descriptor.factor;
}

void Pieces::await_reduced(const Collective& collective, int peer, std::uint64_t piece) {
    const auto& reduced = segment_.rank_state(peer).reduced;
    peers_.wait(peer, collective.operation,
                [&] { return reduced.load(std::memory_order_acquire) > piece; });
}

void Pieces::await_done(const Collective& collective, std::uint64_t piece) {
    for (int distance = 1; distance < size_; ++distance) {
        const int peer = neighbour(distance);
        const auto& done = segment_.rank_state(peer).done;
        peers_.wait(peer, collective.operation,
                    [&] { return done.load(std::memory_order_acquire) > piece; });
    }
}

std::span<const double> Pieces::factors(const Collective& collective) const noexcept {
    if (collective.descriptor.op != ReduceOp::Kind::pre_multiplied_sum)
        return {};
    return factors_;
}

void Pieces::fail_different(const Collective& collective, int peer) {
    const Descriptor& theirs = descriptor(peer, collective.first_piece);
    const Descriptor& ours = collective.descriptor;
    if (theirs.same_call(ours)) {
        fail_mismatch(
            fmt::format("ranks {} and {} called different collectives some time before this {}",
                        rank_, peer, describe_call(ours)));
    }
    const std::string mine = describe_call(ours), other = describe_call(theirs);
    fail_mismatch(fmt::format("rank {} calls {}, rank {} {}", rank_, mine, peer,
                              mine == other ? "the same with other counts" : other));
}

void Pieces::check_block(const Collective& collective, int peer, std::size_t sent,
                         std::size_t expected) {
    if (sent == expected)
        return;
    fail_mismatch(fmt::format("{}: rank {} sends {} elements of {} to rank {}, which expects {}",
                              name_of(collective.call.kind), peer, sent,
                              name_of(collective.call.type), rank_, expected));
}

void Pieces::fail_mismatch(const std::string& text) {
    peers_.abort_for(ErrorCode::mismatch, text);
    throw Error(ErrorCode::mismatch, text,
                "all ranks must call the same collectives in the same order");
}

}  // namespace autolaunch::shm
