#include "comm/mpi/mpi_backend.hpp"

#include "comm/mpi/mpi_group.hpp"
#include "comm/reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace autolaunch {
namespace {

MPI_Datatype mpi_type(DataType type) {
    switch (type) {
        case DataType::f32:
            return MPI_FLOAT;
        case DataType::f64:
            return MPI_DOUBLE;
        case DataType::bf16:
            return MPI_UINT16_T;  // only ever moved
        case DataType::i32:
            return MPI_INT32_T;
        case DataType::i64:
            return MPI_INT64_T;
        case DataType::u8:
            return MPI_UINT8_T;
        case DataType::f16:
            return MPI_UINT16_T;
        case DataType::i8:
            return MPI_INT8_T;
        case DataType::u32:
            return MPI_UINT32_T;
        case DataType::u64:
            return MPI_UINT64_T;
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

/// `count` elements, and the next item `stride` elements further: one piece of every rank's block.
class StridedType {
public:
    StridedType(std::size_t count, std::size_t stride, DataType type) {
        MPI_Datatype piece = MPI_DATATYPE_NULL;
        mpi::check(MPI_Type_contiguous(static_cast<int>(count), mpi_type(type), &piece), "make an MPI type");
        const auto extent = static_cast<MPI_Aint>(stride * size_of(type));
        const int code = MPI_Type_create_resized(piece, 0, extent, &type_);
        MPI_Type_free(&piece);
        mpi::check(code, "make an MPI type");
        mpi::check(MPI_Type_commit(&type_), "make an MPI type");
    }
    ~StridedType() {
        if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
    }
    StridedType(const StridedType&) = delete;
    StridedType& operator=(const StridedType&) = delete;

    MPI_Datatype get() const noexcept { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Calls step(begin, count) for every piece of `count` elements.
template <class Step>
void for_each_piece(std::size_t count, std::size_t piece_elements, const Step& step) {
    for (std::size_t begin = 0; begin < count; begin += piece_elements) {
        step(begin, std::min(piece_elements, count - begin));
    }
}

/// Local reductions go through a copy of every rank's piece, so their pieces are short enough to stay in cache.
constexpr std::size_t kReducePieceBytes = 1 << 20;

}  // namespace

std::shared_ptr<MpiBackend> MpiBackend::world(const MpiOptions& options) {
    return std::make_shared<MpiBackend>(mpi::Group::world(options.timeout), options);
}

MpiBackend::MpiBackend(std::unique_ptr<mpi::Group> group, const MpiOptions& options)
    : group_(std::move(group)), options_(options), exceptions_at_birth_(std::uncaught_exceptions()) {}

MpiBackend::~MpiBackend() {
    // A trainer that fails would otherwise wait in MPI_Finalize for ranks that wait for it in a collective.
    if (std::uncaught_exceptions() > exceptions_at_birth_) group_->abort("an exception ended the trainer");
}

int MpiBackend::rank() const noexcept { return group_->rank(); }
int MpiBackend::size() const noexcept { return group_->size(); }
void MpiBackend::abort(const std::string& reason) { group_->abort(reason); }
CommunicatorStatus MpiBackend::status() const { return group_->status(); }

Work MpiBackend::start(const CollectiveCall& call, Stream) {
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

Work MpiBackend::start_group(std::span<const CollectiveCall> calls, Stream) {
    for (const CollectiveCall& call : calls) start(call, {});
    return {};
}

void MpiBackend::barrier() {
    group_->run("barrier", [&](MPI_Request* request) { return MPI_Ibarrier(group_->data(), request); });
}

std::shared_ptr<CommunicatorBackend> MpiBackend::split(int color, int key) {
    auto part = mpi::Group::split(*group_, color, key);
    return part ? std::make_shared<MpiBackend>(std::move(part), options_) : nullptr;
}

Work MpiBackend::all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
    group_->throw_if_aborted();
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(recv);
    if (type == DataType::bf16) {
        all_reduce_bf16(from, to, count, op);
        return {};
    }
    for_each_piece(count, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const std::size_t offset = begin * size_of(type);
        const void* input = from == to ? MPI_IN_PLACE : from + offset;
        group_->run("all_reduce", [&](MPI_Request* request) {
            return MPI_Iallreduce(input, to + offset, static_cast<int>(part), mpi_type(type), mpi_op(op),
                                  group_->data(), request);
        });
    });
    return {};
}

// Each rank reduces its slice of a piece, then all gather the slices. What does not divide evenly every rank reduces
// itself, from everybody's copy.
void MpiBackend::all_reduce_bf16(const std::byte* send, std::byte* recv, std::size_t count, ReduceOp op) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t each = count / ranks;
    const std::size_t bytes = size_of(DataType::bf16);
    const std::size_t rest = count - each * ranks;
    const std::size_t rest_at = each * ranks * bytes;
    std::byte* own = recv + static_cast<std::size_t>(rank()) * each * bytes;
    reduce_scatter(send, own, each, DataType::bf16, op);
    all_gather(own, recv, each, DataType::bf16);
    if (rest == 0) return;
    gathered_.resize(std::max(gathered_.size(), ranks * rest * bytes));
    all_gather(send + rest_at, gathered_.data(), rest, DataType::bf16);
    std::vector<const void*> inputs;
    for (std::size_t peer = 0; peer < ranks; ++peer) inputs.push_back(gathered_.data() + peer * rest * bytes);
    void* const output = recv + rest_at;
    reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, rest, DataType::bf16, op);
}

Work MpiBackend::all_gather(const void* send, void* recv, std::size_t send_count, DataType type) {
    group_->throw_if_aborted();
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(recv);
    const bool in_place = from == to + static_cast<std::size_t>(rank()) * send_count * size_of(type);
    for_each_piece(send_count, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const StridedType block(part, send_count, type);
        const std::size_t offset = begin * size_of(type);
        const void* input = in_place ? MPI_IN_PLACE : from + offset;
        group_->run("all_gather", [&](MPI_Request* request) {
            return MPI_Iallgather(input, static_cast<int>(part), mpi_type(type), to + offset, 1, block.get(),
                                  group_->data(), request);
        });
    });
    return {};
}

Work MpiBackend::reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op) {
    group_->throw_if_aborted();
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t bytes = size_of(type);
    const std::size_t longest = std::min(options_.piece_elements, kReducePieceBytes / bytes);
    gathered_.resize(std::max(gathered_.size(), std::min(longest, recv_count) * ranks * bytes));
    std::vector<const void*> inputs(ranks);
    for_each_piece(recv_count, longest, [&](std::size_t begin, std::size_t part) {
        const StridedType block(part, recv_count, type);
        group_->run("reduce_scatter", [&](MPI_Request* request) {
            return MPI_Ialltoall(static_cast<const std::byte*>(send) + begin * bytes, 1, block.get(), gathered_.data(),
                                 static_cast<int>(part), mpi_type(type), group_->data(), request);
        });
        for (std::size_t peer = 0; peer < ranks; ++peer) inputs[peer] = gathered_.data() + peer * part * bytes;
        void* const output = static_cast<std::byte*>(recv) + begin * bytes;
        reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, part, type, op);
    });
    return {};
}

Work MpiBackend::broadcast(void* buffer, std::size_t count, DataType type, int root) {
    group_->throw_if_aborted();
    for_each_piece(count, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        group_->run("broadcast", [&](MPI_Request* request) {
            return MPI_Ibcast(static_cast<std::byte*>(buffer) + begin * size_of(type), static_cast<int>(part),
                              mpi_type(type), root, group_->data(), request);
        });
    });
    return {};
}

Work MpiBackend::all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type) {
    group_->throw_if_aborted();
    for_each_piece(count_per_rank, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const StridedType block(part, count_per_rank, type);
        const std::size_t offset = begin * size_of(type);
        const void* input = send == recv ? MPI_IN_PLACE : static_cast<const std::byte*>(send) + offset;
        group_->run("all_to_all", [&](MPI_Request* request) {
            return MPI_Ialltoall(input, 1, block.get(), static_cast<std::byte*>(recv) + offset, 1, block.get(),
                                 group_->data(), request);
        });
    });
    return {};
}

Work MpiBackend::send(const void* buffer, std::size_t count, DataType type, int peer) {
    group_->throw_if_aborted();
    for_each_piece(count, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        group_->run("send", [&](MPI_Request* request) {
            return MPI_Isend(static_cast<const std::byte*>(buffer) + begin * size_of(type), static_cast<int>(part),
                             mpi_type(type), peer, 0, group_->data(), request);
        });
    });
    return {};
}

Work MpiBackend::recv(void* buffer, std::size_t count, DataType type, int peer) {
    group_->throw_if_aborted();
    for_each_piece(count, options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        const MPI_Status status = group_->run("recv", [&](MPI_Request* request) {
            return MPI_Irecv(static_cast<std::byte*>(buffer) + begin * size_of(type), static_cast<int>(part),
                             mpi_type(type), peer, 0, group_->data(), request);
        });
        int received = 0;
        MPI_Get_count(&status, mpi_type(type), &received);
        if (static_cast<std::size_t>(received) != part) {
            const std::string text = fmt::format("rank {} expects {} elements of {} from rank {}, which sent {}",
                                                 rank(), part, name_of(type), peer, received);
            group_->abort(text);
            throw Error(ErrorCode::mismatch, text, "send and recv must agree on count and type");
        }
    });
    return {};
}

}  // namespace autolaunch
