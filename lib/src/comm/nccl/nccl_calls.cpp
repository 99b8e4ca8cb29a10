#include "comm/nccl/nccl_calls.hpp"

#include <cstdint>
#include <cstring>

namespace autolaunch {
namespace {

/// Makes calls and keeps the first result that says something is wrong.
class Calls {
public:
    void operator()(ncclResult_t result) {
        if (result_ == ncclSuccess || (result_ == ncclInProgress && result != ncclSuccess))
            result_ = result;
    }
    ncclResult_t result() const noexcept { return result_; }

private:
    ncclResult_t result_ = ncclSuccess;
};

const std::byte* at(const void* buffer, const CollectiveCall& call, std::size_t elements) {
    return static_cast<const std::byte*>(buffer) + elements * call.element_bytes();
}
std::byte* at(void* buffer, const CollectiveCall& call, std::size_t elements) {
    return static_cast<std::byte*>(buffer) + elements * call.element_bytes();
}

/// The calls of one collective that NCCL takes as one: ncclGroupStart, `body`, ncclGroupEnd.
template <class Body>
ncclResult_t grouped(const NcclLibrary& nccl, const Body& body) {
    Calls calls;
    calls(nccl.GroupStart());
    body(calls);
    calls(nccl.GroupEnd());
    return calls.result();
}

// NCCL has no v-collectives: a broadcast of every rank's block.
ncclResult_t all_gather_ragged(const NcclPlace& place, ncclComm_t comm,
                               const CollectiveCall& call) {
    return grouped(place.nccl, [&](Calls& calls) {
        for (int root = 0; root < place.size; ++root) {
            const std::size_t count = call.blocks.count(root);
            if (count == 0)
                continue;
            std::byte* block = at(call.recv, call, call.blocks.offset(root));
            calls(place.nccl.Broadcast(root == place.rank ? call.send : block, block, count,
                                       nccl_type(call.type), root, comm, place.stream));
        }
    });
}

// A reduction of every rank's block to that rank.
ncclResult_t reduce_scatter_ragged(const NcclPlace& place, ncclComm_t comm,
                                   const CollectiveCall& call, ncclRedOp_t op) {
    return grouped(place.nccl, [&](Calls& calls) {
        for (int root = 0; root < place.size; ++root) {
            const std::size_t count = call.blocks.count(root);
            if (count == 0)
                continue;
            calls(place.nccl.Reduce(at(call.send, call, call.blocks.offset(root)),
                                    root == place.rank ? call.recv : nullptr, count,
                                    nccl_type(call.type), op, root, comm, place.stream));
        }
    });
}

// Not ncclAlltoAll: counts may be equal here and ragged on another rank, and the two must meet.
ncclResult_t all_to_all(const NcclPlace& place, ncclComm_t comm, const CollectiveCall& call) {
    return grouped(place.nccl, [&](Calls& calls) {
        for (int peer = 0; peer < place.size; ++peer) {
            const std::size_t out = call.blocks.count(peer);
            const std::size_t in = call.recv_blocks.count(peer);
            if (out != 0)
                calls(place.nccl.Send(at(call.send, call, call.blocks.offset(peer)), out,
                                      nccl_type(call.type), peer, comm, place.stream));
            if (in != 0)
                calls(place.nccl.Recv(at(call.recv, call, call.recv_blocks.offset(peer)), in,
                                      nccl_type(call.type), peer, comm, place.stream));
        }
    });
}

ncclResult_t gather(const NcclPlace& place, ncclComm_t comm, const CollectiveCall& call) {
    const ncclDataType_t type = nccl_type(call.type);
    if (place.nccl.Gather != nullptr && call.blocks.is_uniform())
        return place.nccl.Gather(call.send, call.recv, call.blocks.each(), type, call.root, comm,
                                 place.stream);
    const std::size_t own = call.blocks.count(place.rank);
    if (place.rank != call.root)
        return own == 0 ? ncclSuccess
                        : place.nccl.Send(call.send, own, type, call.root, comm, place.stream);
    place.device.copy(at(call.recv, call, call.blocks.offset(place.rank)), call.send,
                      own * call.element_bytes(), place.stream);
    return grouped(place.nccl, [&](Calls& calls) {
        for (int peer = 0; peer < place.size; ++peer) {
            const std::size_t count = call.blocks.count(peer);
            if (peer == place.rank || count == 0)
                continue;
            calls(place.nccl.Recv(at(call.recv, call, call.blocks.offset(peer)), count, type, peer,
                                  comm, place.stream));
        }
    });
}

ncclResult_t scatter(const NcclPlace& place, ncclComm_t comm, const CollectiveCall& call) {
    const ncclDataType_t type = nccl_type(call.type);
    if (place.nccl.Scatter != nullptr && call.blocks.is_uniform())
        return place.nccl.Scatter(call.send, call.recv, call.blocks.each(), type, call.root, comm,
                                  place.stream);
    const std::size_t own = call.blocks.count(place.rank);
    if (place.rank != call.root)
        return own == 0 ? ncclSuccess
                        : place.nccl.Recv(call.recv, own, type, call.root, comm, place.stream);
    place.device.copy(call.recv, at(call.send, call, call.blocks.offset(place.rank)),
                      own * call.element_bytes(), place.stream);
    return grouped(place.nccl, [&](Calls& calls) {
        for (int peer = 0; peer < place.size; ++peer) {
            const std::size_t count = call.blocks.count(peer);
            if (peer == place.rank || count == 0)
                continue;
            calls(place.nccl.Send(at(call.send, call, call.blocks.offset(peer)), count, type, peer,
                                  comm, place.stream));
        }
    });
}

}  // namespace

ncclDataType_t nccl_type(DataType type) {
    switch (type) {
        case DataType::f32:
            return ncclFloat32;
        case DataType::f64:
            return ncclFloat64;
        case DataType::bf16:
            return ncclBfloat16;
        case DataType::f16:
            return ncclFloat16;
        case DataType::i8:
            return ncclInt8;
        case DataType::i32:
            return ncclInt32;
        case DataType::i64:
            return ncclInt64;
        case DataType::u8:
            return ncclUint8;
        case DataType::u32:
            return ncclUint32;
        case DataType::u64:
            return ncclUint64;
    }
    return ncclNumTypes;
}

ncclRedOp_t nccl_op(ReduceOp op) {
    switch (op.kind()) {
        case ReduceOp::Kind::min:
            return ncclMin;
        case ReduceOp::Kind::max:
            return ncclMax;
        case ReduceOp::Kind::prod:
            return ncclProd;
        case ReduceOp::Kind::sum:
        case ReduceOp::Kind::avg:
        case ReduceOp::Kind::pre_multiplied_sum:
            return ncclSum;
    }
    return ncclSum;
}

ScalarBytes scalar_bytes(DataType type, double value) {
    ScalarBytes scalar{};
    const auto put = [&](auto element) { std::memcpy(scalar.bytes, &element, sizeof element); };
    switch (type) {
        case DataType::f32:
            put(static_cast<float>(value));
            break;
        case DataType::f64:
            put(value);
            break;
        case DataType::bf16:
            put(bfloat16(static_cast<float>(value)));
            break;
        case DataType::f16:
            put(float16(static_cast<float>(value)));
            break;
        case DataType::i8:
        case DataType::i32:
        case DataType::i64:
            put(static_cast<std::int64_t>(
                value));  // little-endian: the narrow types are its first bytes
            break;
        case DataType::u8:
        case DataType::u32:
        case DataType::u64:
            put(static_cast<std::uint64_t>(value));
            break;
    }
    return scalar;
}

bool is_empty(const CollectiveCall& call) noexcept {
    switch (call.kind) {
        case CollectiveKind::all_to_all:
            return call.blocks.total() == 0 && call.recv_blocks.total() == 0;
        case CollectiveKind::all_gather:
        case CollectiveKind::reduce_scatter:
        case CollectiveKind::gather:
        case CollectiveKind::scatter:
            return call.blocks.total() == 0;
        default:
            return call.count == 0;
    }
}

ncclResult_t enqueue(const NcclPlace& place, ncclComm_t comm, const CollectiveCall& call,
                     ncclRedOp_t op) {
    const NcclLibrary& nccl = place.nccl;
    const ncclDataType_t type = nccl_type(call.type);
    if (is_empty(call))
        return ncclSuccess;
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return nccl.AllReduce(call.send, call.recv, call.count, type, op, comm, place.stream);
        case CollectiveKind::reduce:
            return nccl.Reduce(call.send, call.recv, call.count, type, op, call.root, comm,
                               place.stream);
        case CollectiveKind::broadcast:
            return nccl.Broadcast(call.recv, call.recv, call.count, type, call.root, comm,
                                  place.stream);
        case CollectiveKind::all_gather:
            if (!call.blocks.is_uniform())
                return all_gather_ragged(place, comm, call);
            return nccl.AllGather(call.send, call.recv, call.blocks.each(), type, comm,
                                  place.stream);
        case CollectiveKind::reduce_scatter:
            if (!call.blocks.is_uniform())
                return reduce_scatter_ragged(place, comm, call, op);
            return nccl.ReduceScatter(call.send, call.recv, call.blocks.each(), type, op, comm,
                                      place.stream);
        case CollectiveKind::all_to_all:
            return all_to_all(place, comm, call);
        case CollectiveKind::gather:
            return gather(place, comm, call);
        case CollectiveKind::scatter:
            return scatter(place, comm, call);
        case CollectiveKind::send:
            return nccl.Send(call.send, call.count, type, call.root, comm, place.stream);
        case CollectiveKind::recv:
            return nccl.Recv(call.recv, call.count, type, call.root, comm, place.stream);
    }
    return ncclInvalidArgument;
}

ncclResult_t enqueue_messages(const NcclPlace& place, ncclComm_t comm,
                              std::span<const CollectiveCall> messages) {
    return grouped(place.nccl, [&](Calls& calls) {
        for (const CollectiveCall& message : messages)
            calls(enqueue(place, comm, message, ncclSum));
    });
}

void enqueue_alone(const NcclPlace& place, const CollectiveCall& call) {
    const std::size_t count = extents_of(call, 0).send;
    if (call.send == nullptr || count == 0)
        return;  // broadcast, or nothing at all
    place.device.copy(call.recv, call.send, count * call.element_bytes(), place.stream);
    if (reduces(call.kind) && call.op.factor() != 1)
        place.device.scale(Scaling::multiply, call.recv, count, call.type, call.op.factor(),
                           place.stream);
}

}  // namespace autolaunch
