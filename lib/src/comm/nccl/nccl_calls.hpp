#pragma once
// From our calls to NCCL's.
#include "comm/call.hpp"
#include "comm/nccl/cuda_device.hpp"
#include "comm/nccl/nccl_library.hpp"

#include <cstddef>
#include <span>

namespace autolaunch {

/// Where calls go.
struct NcclPlace {
    const NcclLibrary& nccl;
    CudaDevice& device;
    int rank;
    int size;
    CUstream stream;
};

/// Puts one call on the stream. `op` is NCCL's operation where the call reduces.
/// all_to_all in place must have been taken apart. The first result that is no success is returned.
ncclResult_t enqueue(const NcclPlace& place, ncclComm_t comm, const CollectiveCall& call,
                     ncclRedOp_t op);
/// Sends and receives side by side.
ncclResult_t enqueue_messages(const NcclPlace& place, ncclComm_t comm,
                              std::span<const CollectiveCall> messages);
/// The call of a group of one rank: a copy, and a multiplication where the operation has a factor.
void enqueue_alone(const NcclPlace& place, const CollectiveCall& call);

ncclDataType_t nccl_type(DataType type);
/// sum for avg, which is divided afterwards, and for pre_multiplied_sum with a factor of 1.
ncclRedOp_t nccl_op(ReduceOp op);
/// `value` as one element, for NCCL to read.
struct ScalarBytes {
    alignas(8) std::byte bytes[8];
};
ScalarBytes scalar_bytes(DataType type, double value);
/// Nothing to move on any rank.
bool is_empty(const CollectiveCall& call) noexcept;

}  // namespace autolaunch
