#include "comm/shm/pieces.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace autolaunch::shm {
namespace {

std::uint64_t digest_of(const BlockCounts& blocks, int size) {
    if (blocks.is_uniform()) return 0;
    std::uint64_t digest = 0;
    for (int rank = 0; rank < size; ++rank) {
        const std::uint64_t parts[2] = {digest, blocks.count(rank)};
        digest = hash64(parts, sizeof parts);
    }
    return digest | 1;
}

// Of an all_to_all: what this rank sends to or receives from another, in bytes.
std::uint64_t longest_block(const CollectiveCall& call, int rank, int size) {
    std::size_t longest = 0;
    for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) longest = std::max({longest, call.blocks.count(peer), call.recv_blocks.count(peer)});
    }
    return longest * call.element_bytes();
}

bool has_blocks(CollectiveKind kind) {
    return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
           kind == CollectiveKind::all_to_all || kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
}

bool reduces(CollectiveKind kind) {
    return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
           kind == CollectiveKind::reduce_scatter;
}

Descriptor descriptor_of(const CollectiveCall& call, Kind kind, int size) {
    Descriptor descriptor;
    const bool blocks = has_blocks(call.kind);
    descriptor.count = !blocks ? call.count : call.blocks.is_uniform() ? call.blocks.each() : call.blocks.total();
    if (blocks) descriptor.counts = digest_of(call.blocks, size);
    descriptor.root = call.root;
    descriptor.kind = kind;
    descriptor.type = call.type;
    if (reduces(call.kind)) descriptor.op = call.op.kind();
    descriptor.factor = call.op.factor();
    return descriptor;
}

std::string describe_call(const Descriptor& call) {
    if (call.kind == Kind::barrier) return "barrier";
    if (call.kind == Kind::split) return "split";
    if (call.kind == Kind::allocate) return "allocate";
    const auto kind = static_cast<CollectiveKind>(call.kind);
    if (call.counts != 0) {
        std::string text = fmt::format("{} of ragged blocks, together {} elements of {}", name_of(kind), call.count,
                                       name_of(call.type));
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

Pieces::Pieces(const Segment& segment, Peers& peers, int rank, int size)
    : segment_(segment),
      peers_(peers),
      rank_(rank),
      size_(size),
      inputs_(static_cast<std::size_t>(size)),
      factors_(static_cast<std::size_t>(size)) {}

Collective Pieces::begin(const CollectiveCall& call, Kind kind) {
    const Operation operation = peers_.begin(kind == Kind::split      ? "split"
                                             : kind == Kind::allocate ? "allocate"
                                             : kind == Kind::barrier  ? "barrier"
                                                                      : name_of(call.kind));
    Descriptor descriptor = descriptor_of(call, kind, size_);
    descriptor.history = history_;
    if (call.kind == CollectiveKind::all_to_all) descriptor.longest = longest_block(call, rank_, size_);
    // Any mixing function will do: the digest meets only digests of other ranks that called almost the same.
    auto word = (std::uint64_t(call.root) << 40) ^ (std::uint64_t(kind) << 56) ^ (std::uint64_t(call.type) << 52) ^
                (std::uint64_t(descriptor.op) << 60);
    if (call.kind != CollectiveKind::all_to_all) word ^= descriptor.count ^ descriptor.counts;
    history_ = (history_ ^ word) * 0x9e3779b97f4a7c15ull;
    history_ ^= history_ >> 29;
    factors_[static_cast<std::size_t>(rank_)] = descriptor.factor;
    return {call, operation, descriptor, next_piece_};
}

std::byte* Pieces::open(const Collective& collective, std::uint64_t piece) {
    if (piece >= kSlots) {
        for (int distance = 1; distance < size_; ++distance) {
            const int peer = neighbour(distance);
            const auto& done = segment_.rank_state(peer).done;
            peers_.wait(peer, collective.operation,
                        [&] { return done.load(std::memory_order_acquire) + kSlots > piece; });
        }
    }
    segment_.rank_state(rank_).descriptors[piece % kSlots] = collective.descriptor;
    return slot(rank_, piece);
}

void Pieces::publish_filled(std::uint64_t piece) { peers_.publish(segment_.rank_state(rank_).filled, piece + 1); }

void Pieces::publish_reduced(std::uint64_t piece) { peers_.publish(segment_.rank_state(rank_).reduced, piece + 1); }

void Pieces::publish_done(std::uint64_t piece) {
    peers_.publish(segment_.rank_state(rank_).done, piece + 1);
    next_piece_ = piece + 1;
}

void Pieces::await_filled(const Collective& collective, int peer, std::uint64_t piece) {
    const auto& filled = segment_.rank_state(peer).filled;
    peers_.wait(peer, collective.operation, [&] { return filled.load(std::memory_order_acquire) > piece; });
    check_same(collective, peer, piece);
}

void Pieces::await_reduced(const Collective& collective, int peer, std::uint64_t piece) {
    const auto& reduced = segment_.rank_state(peer).reduced;
    peers_.wait(peer, collective.operation, [&] { return reduced.load(std::memory_order_acquire) > piece; });
}

void Pieces::await_done(const Collective& collective, std::uint64_t piece) {
    for (int distance = 1; distance < size_; ++distance) {
        const int peer = neighbour(distance);
        const auto& done = segment_.rank_state(peer).done;
        peers_.wait(peer, collective.operation, [&] { return done.load(std::memory_order_acquire) > piece; });
    }
}

std::span<const double> Pieces::factors(const Collective& collective) const noexcept {
    if (collective.descriptor.op != ReduceOp::Kind::pre_multiplied_sum) return {};
    return factors_;
}

void Pieces::check_same(const Collective& collective, int peer, std::uint64_t piece) {
    const Descriptor& theirs = descriptor(peer, piece);
    const Descriptor& ours = collective.descriptor;
    factors_[static_cast<std::size_t>(peer)] = theirs.factor;
    if (theirs.matches(ours)) return;
    if (theirs.same_call(ours)) {
        fail_mismatch(fmt::format("ranks {} and {} called different collectives some time before this {}", rank_, peer,
                                  describe_call(ours)));
    }
    const std::string mine = describe_call(ours), other = describe_call(theirs);
    fail_mismatch(fmt::format("rank {} calls {}, rank {} {}", rank_, mine, peer,
                              mine == other ? "the same with other counts" : other));
}

void Pieces::check_block(const Collective& collective, int peer, std::size_t sent, std::size_t expected) {
    if (sent == expected) return;
    fail_mismatch(fmt::format("{}: rank {} sends {} elements of {} to rank {}, which expects {}",
                              name_of(collective.call.kind), peer, sent, name_of(collective.call.type), rank_,
                              expected));
}

void Pieces::fail_mismatch(const std::string& text) {
    peers_.abort_for(ErrorCode::mismatch, text);
    throw Error(ErrorCode::mismatch, text, "all ranks must call the same collectives in the same order");
}

}  // namespace autolaunch::shm
