#pragma once
// The CUDA driver's functions that this folder uses, looked up at run time: the library links no
// CUDA, and a process that never asks for nccl never loads it. cuda_device.hpp is the only caller.
#include <cuda.h>

#include <string>

namespace autolaunch {

// cuda.h renames some of them (cuMemAlloc is cuMemAlloc_v2); members carry the names it makes.
#define AUTOLAUNCH_CUDA_FUNCTIONS(X)     \
    X(cuInit)                            \
    X(cuDeviceGetCount)                  \
    X(cuDeviceGet)                       \
    X(cuDevicePrimaryCtxRetain)          \
    X(cuDevicePrimaryCtxRelease)         \
    X(cuCtxPushCurrent)                  \
    X(cuCtxPopCurrent)                   \
    X(cuStreamCreateWithPriority)        \
    X(cuStreamDestroy)                   \
    X(cuStreamBeginCapture)              \
    X(cuStreamEndCapture)                \
    X(cuStreamIsCapturing)               \
    X(cuGraphInstantiateWithFlags)       \
    X(cuGraphLaunch)                     \
    X(cuGraphExecDestroy)                \
    X(cuGraphDestroy)                    \
    X(cuEventCreate)                     \
    X(cuEventDestroy)                    \
    X(cuEventRecord)                     \
    X(cuEventQuery)                      \
    X(cuStreamWaitEvent)                 \
    X(cuMemAlloc)                        \
    X(cuMemFree)                         \
    X(cuMemAllocAsync)                   \
    X(cuMemFreeAsync)                    \
    X(cuMemcpyAsync)                     \
    X(cuMemsetD8Async)                   \
    X(cuMemHostAlloc)                    \
    X(cuMemFreeHost)                     \
    X(cuPointerGetAttributes)            \
    X(cuModuleLoadData)                  \
    X(cuModuleGetFunction)               \
    X(cuLaunchKernel)                    \
    X(cuThreadExchangeStreamCaptureMode) \
    X(cuGetErrorName)                    \
    X(cuGetErrorString)

/// Loaded once and never unloaded. Threads: any.
struct CudaDriver {
    /// Throws Error{unsupported} when there is no such library, or a function is missing in it.
    static CudaDriver load(const std::string& library);
    /// Throws Error{system}: "cannot <doing>: CUDA says …".
    void check(CUresult result, const char* doing) const;
    std::string text(CUresult result) const;

#define AUTOLAUNCH_MEMBER(name) decltype(&::name) name = nullptr;
    AUTOLAUNCH_CUDA_FUNCTIONS(AUTOLAUNCH_MEMBER)
#undef AUTOLAUNCH_MEMBER
};

}  // namespace autolaunch
