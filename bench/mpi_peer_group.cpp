#include "mpi_peer_group.hpp"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace autolaunch::bench {
namespace {

MPI_Datatype mpi_type(DataType type) {
    switch (type) {
        case DataType::f32:
            return MPI_FLOAT;
        case DataType::f64:
            return MPI_DOUBLE;
        case DataType::i8:
            return MPI_INT8_T;
        case DataType::u8:
            return MPI_UINT8_T;
        case DataType::i32:
            return MPI_INT32_T;
        case DataType::u32:
            return MPI_UINT32_T;
        case DataType::i64:
            return MPI_INT64_T;
        case DataType::u64:
            return MPI_UINT64_T;
        case DataType::bf16:
        case DataType::f16:
            break;
    }
    return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ReduceOp op) {
    switch (op.kind()) {
        case ReduceOp::Kind::sum:
            return MPI_SUM;
        case ReduceOp::Kind::prod:
            return MPI_PROD;
        case ReduceOp::Kind::min:
            return MPI_MIN;
        case ReduceOp::Kind::max:
            return MPI_MAX;
        default:
            break;
    }
    return MPI_OP_NULL;
}

int local_rank() {
    const char* text = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    return text == nullptr ? 0 : std::atoi(text);
}

const void* block_of(const void* whole, std::size_t bytes, int rank) {
    return static_cast<const std::byte*>(whole) + static_cast<std::size_t>(rank) * bytes;
}

}  // namespace

MpiPeerGroup::MpiPeerGroup() : device_(local_rank()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

std::string MpiPeerGroup::refusal(DataType type, std::optional<ReduceOp> op) const {
    if (mpi_type(type) == MPI_DATATYPE_NULL)
        return "MPI has no such type";
    if (!op)
        return {};
    if (mpi_op(*op) == MPI_OP_NULL)
        return "MPI has no such operation";
    if (size_of(type) == 1 && *op == ReduceOp::sum)
        return "Open MPI's sums of bytes saturate, and the check wraps";
    return {};
}

std::shared_ptr<void> MpiPeerGroup::allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &memory) != MPI_SUCCESS)
        throw std::bad_alloc();
    std::memset(memory, 0, bytes);
    return {memory, [](void* it) { MPI_Free_mem(it); }};
}

void MpiPeerGroup::start(const std::vector<CollectiveCall>& calls) {
    if (calls.size() == 1)
        return start_one(calls[0]);
    // Whatever has several calls sends one message and receives one.
    const CollectiveCall& send = calls[0];
    const CollectiveCall& recv = calls[1];
    const int count = static_cast<int>(send.count);
    if (send.send == recv.recv) {
        MPI_Sendrecv_replace(recv.recv, count, mpi_type(send.type), send.root, 0, recv.root, 0,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Sendrecv(send.send, count, mpi_type(send.type), send.root, 0, recv.recv,
                     static_cast<int>(recv.count), mpi_type(recv.type), recv.root, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void MpiPeerGroup::start_one(const CollectiveCall& call) {
    const MPI_Datatype type = mpi_type(call.type);
    const int each = static_cast<int>(call.blocks.each());
    const std::size_t block = call.blocks.each() * call.element_bytes();
    const bool is_root = rank_ == call.root;
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            MPI_Allreduce(call.send == call.recv ? MPI_IN_PLACE : call.send, call.recv,
                          static_cast<int>(call.count), type, mpi_op(call.op), MPI_COMM_WORLD);
            break;
        case CollectiveKind::reduce:
            reduce_to_root(call);
            break;
        case CollectiveKind::broadcast:
            MPI_Bcast(call.recv, static_cast<int>(call.count), type, call.root, MPI_COMM_WORLD);
            break;
        case CollectiveKind::all_gather:
            MPI_Allgather(call.send == block_of(call.recv, block, rank_) ? MPI_IN_PLACE : call.send,
                          each, type, call.recv, each, type, MPI_COMM_WORLD);
            break;
        case CollectiveKind::reduce_scatter:
            reduce_scatter(call);
            break;
        case CollectiveKind::all_to_all:
            MPI_Alltoall(call.send == call.recv ? MPI_IN_PLACE : call.send, each, type, call.recv,
                         each, type, MPI_COMM_WORLD);
            break;
        case CollectiveKind::gather:
            MPI_Gather(is_root && call.send == block_of(call.recv, block, rank_) ? MPI_IN_PLACE
                                                                                 : call.send,
                       each, type, call.recv, each, type, call.root, MPI_COMM_WORLD);
            break;
        case CollectiveKind::scatter:
            MPI_Scatter(call.send, each, type,
                        is_root && call.recv == block_of(call.send, block, rank_) ? MPI_IN_PLACE
                                                                                  : call.recv,
                        each, type, call.root, MPI_COMM_WORLD);
            break;
        default:
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

void MpiPeerGroup::reduce_to_root(const CollectiveCall& call) {
    const bool in_place = rank_ == call.root && call.send == call.recv;
    MPI_Reduce(in_place ? MPI_IN_PLACE : call.send, rank_ == call.root ? call.recv : nullptr,
               static_cast<int>(call.count), mpi_type(call.type), mpi_op(call.op), call.root,
               MPI_COMM_WORLD);
}

// MPI's in-place form leaves the result at the buffer's start; it is then moved to where it is in
// place for the others.
void MpiPeerGroup::reduce_scatter(const CollectiveCall& call) {
    const std::size_t bytes = call.blocks.each() * call.element_bytes();
    const bool in_place = call.recv == block_of(call.send, bytes, rank_);
    void* const target = in_place ? const_cast<void*>(call.send) : call.recv;
    MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : call.send, target,
                             static_cast<int>(call.blocks.each()), mpi_type(call.type),
                             mpi_op(call.op), MPI_COMM_WORLD);
    if (target != call.recv)
        std::memcpy(call.recv, target, bytes);
}

void MpiPeerGroup::barrier() { MPI_Barrier(MPI_COMM_WORLD); }

double MpiPeerGroup::reduce(double value, ReduceOp op) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, mpi_op(op), MPI_COMM_WORLD);
    return value;
}

std::vector<std::string> MpiPeerGroup::gather(const std::string& text) {
    constexpr std::size_t kTextBytes = 256;
    char own[kTextBytes] = {};
    std::memcpy(own, text.data(), std::min(text.size(), kTextBytes - 1));
    std::vector<char> all(kTextBytes * static_cast<std::size_t>(size_));
    MPI_Allgather(own, kTextBytes, MPI_CHAR, all.data(), kTextBytes, MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < all.size(); at += kTextBytes)
        texts.emplace_back(all.data() + at);
    return texts;
}

}  // namespace autolaunch::bench
