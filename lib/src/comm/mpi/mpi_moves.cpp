// Collectives of the mpi backend that only copy.
#include "comm/mpi/mpi_exchange.hpp"
#include "comm/mpi/mpi_types.hpp"

#include <cstring>

namespace autolaunch {

using mpi::BlockPiece;
using mpi::for_each_piece;

namespace {

const std::byte* send_bytes(const CollectiveCall& call) { return static_cast<const std::byte*>(call.send); }
std::byte* recv_bytes(const CollectiveCall& call) { return static_cast<std::byte*>(call.recv); }

std::size_t block_bytes(const CollectiveCall& call, const BlockCounts& blocks, int rank) {
    return blocks.count(rank) * call.element_bytes();
}
std::size_t block_offset(const CollectiveCall& call, const BlockCounts& blocks, int rank) {
    return blocks.offset(rank) * call.element_bytes();
}

void copy_unless_same(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

/// MPI takes what it sends as const; one kind of message serves both ways.
std::byte* to_send(const std::byte* data) { return const_cast<std::byte*>(data); }

}  // namespace

void MpiBackend::broadcast(const CollectiveCall& call) {
    for_each_piece(call.count, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        group_->run(calling_, [&](MPI_Request* request) {
            return MPI_Ibcast(recv_bytes(call) + begin * call.element_bytes(), static_cast<int>(part),
                              mpi::type_of(call.type), call.root, group_->data(), request);
        });
    });
}

void MpiBackend::all_gather(const CollectiveCall& call) {
    const std::byte* from = send_bytes(call);
    std::byte* to = recv_bytes(call);
    std::byte* own = to + block_offset(call, call.blocks, rank());
    if (!call.blocks.is_uniform()) {
        Exchange exchange(*this, Exchange::Tag::collective);
        for (int distance = 1; distance < size(); ++distance) {
            const int next = (rank() + distance) % size();
            const int previous = (rank() + size() - distance) % size();
            exchange.send({to_send(from), block_bytes(call, call.blocks, rank()), next});
            exchange.receive(
                {to + block_offset(call, call.blocks, previous), block_bytes(call, call.blocks, previous), previous});
        }
        exchange.run(calling_);
        copy_unless_same(own, from, block_bytes(call, call.blocks, rank()));
        return;
    }
    const std::size_t each = call.blocks.each();
    for_each_piece(each, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const BlockPiece piece(part, each, call.type);
        const std::size_t offset = begin * call.element_bytes();
        const void* input = from == own ? MPI_IN_PLACE : from + offset;
        group_->run(calling_, [&](MPI_Request* request) {
            return MPI_Iallgather(input, static_cast<int>(part), mpi::type_of(call.type), to + offset, piece.count(),
                                  piece.type(), group_->data(), request);
        });
    });
}

// Counts may differ between any two ranks, and no rank knows whether they do: so never MPI's uniform form.
void MpiBackend::all_to_all(const CollectiveCall& call) {
    const std::byte* from = send_bytes(call);
    std::byte* to = recv_bytes(call);
    if (from == to) {
        std::byte* copy = scratch(call.blocks.total() * call.element_bytes());
        copy_unless_same(copy, from, call.blocks.total() * call.element_bytes());
        from = copy;
    }
    const auto block = [&](const BlockCounts& blocks, const std::byte* base, int peer) {
        return Message{to_send(base) + block_offset(call, blocks, peer), block_bytes(call, blocks, peer), peer,
                       call.type};
    };
    Exchange exchange(*this, Exchange::Tag::collective);
    for (int distance = 1; distance < size(); ++distance) {
        exchange.send(block(call.blocks, from, (rank() + distance) % size()));
        exchange.receive(block(call.recv_blocks, to, (rank() + size() - distance) % size()));
    }
    exchange.run(calling_);
    copy_unless_same(to + block_offset(call, call.recv_blocks, rank()), from + block_offset(call, call.blocks, rank()),
                     block_bytes(call, call.blocks, rank()));
}

void MpiBackend::gather(const CollectiveCall& call) {
    const std::byte* from = send_bytes(call);
    const bool is_root = rank() == call.root;
    std::byte* own = is_root ? recv_bytes(call) + block_offset(call, call.blocks, rank()) : nullptr;
    if (!call.blocks.is_uniform()) {
        Exchange exchange(*this, Exchange::Tag::collective);
        for (int peer = 0; is_root && peer < size(); ++peer) {
            if (peer == rank()) continue;
            exchange.receive({recv_bytes(call) + block_offset(call, call.blocks, peer),
                              block_bytes(call, call.blocks, peer), peer, call.type});
        }
        if (!is_root) exchange.send({to_send(from), block_bytes(call, call.blocks, rank()), call.root, call.type});
        exchange.run(calling_);
        if (is_root) copy_unless_same(own, from, block_bytes(call, call.blocks, rank()));
        return;
    }
    const std::size_t each = call.blocks.each();
    for_each_piece(each, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const BlockPiece piece(part, each, call.type);
        const std::size_t offset = begin * call.element_bytes();
        const void* input = is_root && from == own ? MPI_IN_PLACE : from + offset;
        group_->run(calling_, [&](MPI_Request* request) {
            return MPI_Igather(input, static_cast<int>(part), mpi::type_of(call.type),
                               is_root ? recv_bytes(call) + offset : nullptr, piece.count(), piece.type(), call.root,
                               group_->data(), request);
        });
    });
}

void MpiBackend::scatter(const CollectiveCall& call) {
    std::byte* to = recv_bytes(call);
    const bool is_root = rank() == call.root;
    const std::byte* own = is_root ? send_bytes(call) + block_offset(call, call.blocks, rank()) : nullptr;
    if (!call.blocks.is_uniform()) {
        Exchange exchange(*this, Exchange::Tag::collective);
        for (int peer = 0; is_root && peer < size(); ++peer) {
            if (peer == rank()) continue;
            exchange.send({to_send(send_bytes(call)) + block_offset(call, call.blocks, peer),
                           block_bytes(call, call.blocks, peer), peer, call.type});
        }
        if (!is_root) exchange.receive({to, block_bytes(call, call.blocks, rank()), call.root, call.type});
        exchange.run(calling_);
        if (is_root) copy_unless_same(to, own, block_bytes(call, call.blocks, rank()));
        return;
    }
    const std::size_t each = call.blocks.each();
    for_each_piece(each, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const BlockPiece piece(part, each, call.type);
        const std::size_t offset = begin * call.element_bytes();
        void* output = is_root && to == own ? MPI_IN_PLACE : to + offset;
        group_->run(calling_, [&](MPI_Request* request) {
            return MPI_Iscatter(is_root ? send_bytes(call) + offset : nullptr, piece.count(), piece.type(), output,
                                static_cast<int>(part), mpi::type_of(call.type), call.root, group_->data(), request);
        });
    });
}

void MpiBackend::send_and_receive(std::span<const CollectiveCall> calls) {
    Exchange exchange(*this, Exchange::Tag::user);
    for (const CollectiveCall& call : calls) {
        const std::size_t bytes = call.count * call.element_bytes();
        if (call.kind == CollectiveKind::send) {
            exchange.send({to_send(send_bytes(call)), bytes, call.root, call.type});
        } else {
            exchange.receive({recv_bytes(call), bytes, call.root, call.type});
        }
    }
    exchange.run(calling_);
}

}  // namespace autolaunch
