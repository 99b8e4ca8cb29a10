#pragma once
// NCCL's functions, looked up at run time, so that one binary runs with an older libnccl and uses
// what a newer one has.
#include <nccl.h>

#include <cstddef>
#include <string>

namespace autolaunch {

// All in 2.18.1.
#define AUTOLAUNCH_NCCL_FUNCTIONS(X) \
    X(GetVersion)                    \
    X(GetUniqueId)                   \
    X(GetErrorString)                \
    X(GetLastError)                  \
    X(CommInitRankConfig)            \
    X(CommSplit)                     \
    X(CommFinalize)                  \
    X(CommDestroy)                   \
    X(CommAbort)                     \
    X(CommGetAsyncError)             \
    X(GroupStart)                    \
    X(GroupEnd)                      \
    X(AllReduce)                     \
    X(Reduce)                        \
    X(Broadcast)                     \
    X(AllGather)                     \
    X(ReduceScatter)                 \
    X(Send)                          \
    X(Recv)                          \
    X(RedOpCreatePreMulSum)          \
    X(RedOpDestroy)

/// Newer functions are null where the library has none. Their types are written out here, because
/// the header that this was compiled with may be older than the library. Threads: any.
struct NcclLibrary {
    /// Throws Error{unsupported} when there is no such library or it is older than 2.18.
    static NcclLibrary load(const std::string& library);

#define AUTOLAUNCH_MEMBER(name) decltype(&::nccl##name) name = nullptr;
    AUTOLAUNCH_NCCL_FUNCTIONS(AUTOLAUNCH_MEMBER)
#undef AUTOLAUNCH_MEMBER

    using Window = void*;  // ncclWindow_t
    using MoveBlocks = ncclResult_t(const void*, void*, std::size_t, ncclDataType_t, int root,
                                    ncclComm_t, cudaStream_t);
    // 2.19
    ncclResult_t (*MemAlloc)(void**, std::size_t) = nullptr;
    ncclResult_t (*MemFree)(void*) = nullptr;
    ncclResult_t (*CommRegister)(ncclComm_t, void*, std::size_t, void** handle) = nullptr;
    ncclResult_t (*CommDeregister)(ncclComm_t, void* handle) = nullptr;
    // 2.23
    ncclResult_t (*CommInitRankScalable)(ncclComm_t*, int ranks, int rank, int ids, ncclUniqueId*,
                                         ncclConfig_t*) = nullptr;
    // 2.27
    ncclResult_t (*CommWindowRegister)(ncclComm_t, void*, std::size_t, Window*,
                                       int flags) = nullptr;
    ncclResult_t (*CommWindowDeregister)(ncclComm_t, Window) = nullptr;
    // 2.28.3
    MoveBlocks* Gather = nullptr;
    MoveBlocks* Scatter = nullptr;
    // 2.28.7
    ncclResult_t (*CommRevoke)(ncclComm_t, int flags) = nullptr;

    int version = 0;  ///< 22809 for 2.28.9
    std::string version_text() const;
};

// Values of newer headers.
inline constexpr int kNcclWindowSymmetric = 0x01;  // NCCL_WIN_COLL_SYMMETRIC
inline constexpr int kNcclRevokeDefault = 0x00;    // NCCL_REVOKE_DEFAULT

}  // namespace autolaunch
