// Collectives of the mpi backend that only copy.
#include "comm/copy_unless_same.hpp"
#include "comm/even_blocks.hpp"
#include "comm/mpi/mpi_backend.hpp"
#include "comm/mpi/mpi_exchange.hpp"
#include "comm/mpi/mpi_group.hpp"

namespace autolaunch {
namespace {

/// Up to this many bytes a broadcast goes down a tree as a whole; longer ones are cut in a slice
/// for each rank.
constexpr std::size_t kTreeBytes = 64 << 10;

std::size_t block_bytes(const CollectiveCall& call, const BlockCounts& blocks, int rank) {
    return blocks.count(rank) * call.element_bytes();
}
std::size_t block_offset(const CollectiveCall& call, const BlockCounts& blocks, int rank) {
    return blocks.offset(rank) * call.element_bytes();
}

}  // namespace

void MpiBackend::broadcast(const CollectiveCall& call) {
    const std::size_t bytes = call.count * call.element_bytes();
    if (size() <= 2 || bytes <= kTreeBytes)
        return broadcast_by_tree(call.recv_bytes(), bytes, call.root);
    const BlockCounts slices = even_blocks(call.count, size());
    std::byte* own = call.recv_bytes() + block_offset(call, slices, rank());
    CollectiveCall part = call;
    part.blocks = slices;
    part.send = rank() == call.root ? call.recv : own;
    part.recv = own;
    scatter(part);
    part.send = own;
    part.recv = call.recv;
    all_gather(part);
}

// The binomial tree: who has the data gives it to the rank that is half as far away as the last
// one.
void MpiBackend::broadcast_by_tree(std::byte* data, std::size_t bytes, int root) {
    const int from_root = (rank() - root + size()) % size();
    int distance = 1;
    while (distance < size() && (from_root & distance) == 0)
        distance *= 2;
    if (from_root != 0) {
        exchange_->receive(data, bytes, (rank() - distance + size()) % size());
        exchange_->run(calling_);
    }
    for (distance /= 2; distance > 0; distance /= 2)
        if (from_root + distance < size())
            exchange_->send(data, bytes, (rank() + distance) % size());
    if (from_root == 0 || !exchange_->empty())
        exchange_->run(calling_);
}

void MpiBackend::all_gather(const CollectiveCall& call) {
    const std::byte* from = call.send_bytes();
    std::byte* to = call.recv_bytes();
    const std::size_t own_bytes = block_bytes(call, call.blocks, rank());
    for (int distance = 1; distance < size(); ++distance) {
        const int previous = rank_behind(distance);
        exchange_->send(from, own_bytes, rank_ahead(distance));
        exchange_->receive(to + block_offset(call, call.blocks, previous),
                           block_bytes(call, call.blocks, previous), previous, call.type);
    }
    exchange_->run(calling_);
    copy_unless_same(to + block_offset(call, call.blocks, rank()), from, own_bytes);
}

void MpiBackend::all_to_all(const CollectiveCall& call) {
    const std::byte* from = call.send_bytes();
    std::byte* to = call.recv_bytes();
    if (from == to) {
        std::byte* copy = scratch(call.blocks.total() * call.element_bytes());
        copy_unless_same(copy, from, call.blocks.total() * call.element_bytes());
        from = copy;
    }
    for (int distance = 1; distance < size(); ++distance) {
        const int next = rank_ahead(distance), previous = rank_behind(distance);
        exchange_->send(from + block_offset(call, call.blocks, next),
                        block_bytes(call, call.blocks, next), next);
        exchange_->receive(to + block_offset(call, call.recv_blocks, previous),
                           block_bytes(call, call.recv_blocks, previous), previous, call.type);
    }
    exchange_->run(calling_);
    copy_unless_same(to + block_offset(call, call.recv_blocks, rank()),
                     from + block_offset(call, call.blocks, rank()),
                     block_bytes(call, call.blocks, rank()));
}

void MpiBackend::gather(const CollectiveCall& call) {
    const std::size_t own_bytes = block_bytes(call, call.blocks, rank());
    if (rank() != call.root) {
        exchange_->send(call.send, own_bytes, call.root);
        return exchange_->run(calling_);
    }
    for (int distance = 1; distance < size(); ++distance) {
        const int peer = rank_behind(distance);
        exchange_->receive(call.recv_bytes() + block_offset(call, call.blocks, peer),
                           block_bytes(call, call.blocks, peer), peer, call.type);
    }
    exchange_->run(calling_);
    copy_unless_same(call.recv_bytes() + block_offset(call, call.blocks, rank()), call.send_bytes(),
                     own_bytes);
}

void MpiBackend::scatter(const CollectiveCall& call) {
    const std::size_t own_bytes = block_bytes(call, call.blocks, rank());
    if (rank() != call.root) {
        exchange_->receive(call.recv, own_bytes, call.root, call.type);
        return exchange_->run(calling_);
    }
    for (int distance = 1; distance < size(); ++distance) {
        const int peer = rank_ahead(distance);
        exchange_->send(call.send_bytes() + block_offset(call, call.blocks, peer),
                        block_bytes(call, call.blocks, peer), peer);
    }
    exchange_->run(calling_);
    copy_unless_same(call.recv_bytes(), call.send_bytes() + block_offset(call, call.blocks, rank()),
                     own_bytes);
}

void MpiBackend::send_and_receive(std::span<const CollectiveCall> calls) {
    for (const CollectiveCall& call : calls) {
        const std::size_t bytes = call.count * call.element_bytes();
        if (call.kind == CollectiveKind::send) {
            exchange_->send(call.send, bytes, call.root);
        } else {
            exchange_->receive(call.recv, bytes, call.root, call.type);
        }
    }
    exchange_->run(calling_, mpi::Exchange::Tag::user);
}

// Dissemination: after the step of distance d every rank knows of 2 d ranks. Hensgen, Finkel,
// Manber, 1988.
void MpiBackend::barrier() {
    calling_ = "barrier";
    std::byte* const token = scratch(2);
    if (size() == 1)
        group_->throw_if_aborted();
    for (int distance = 1; distance < size(); distance *= 2) {
        exchange_->send(token, 1, rank_ahead(distance));
        exchange_->receive(token + 1, 1, rank_behind(distance));
        exchange_->run(calling_);
    }
}

}  // namespace autolaunch
