#pragma once
// What the NCCL communicators of one process share: the GPU, the library, the way to the other
// ranks' store.
#include "comm/nccl/cuda_device.hpp"
#include "comm/nccl/nccl_library.hpp"
#include "comm/nccl/nccl_watchdog.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace autolaunch {

/// How ranks tell each other what NCCL cannot: ids before there is a communicator, and aborts. The
/// job's store, or a test's. Threads: any. Values are byte strings; a key is set once.
struct NcclRendezvous {
    std::function<void(const std::string& key, const std::string& value)> set;
    /// Waits for the key; throws TimeoutError.
    std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;
    std::function<bool(const std::string& key)> has;
    /// Calls `abort` when the job has no use for a group any more, while the result lives. Not
    /// needed.
    std::function<std::shared_ptr<void>(std::function<void(const std::string&)> abort)> end_with =
        {};
};

struct NcclRuntime {
    std::shared_ptr<CudaDevice> device;
    NcclLibrary nccl;
    NcclRendezvous rendezvous;
    std::chrono::milliseconds timeout{600'000};
    /// NCCL's own blocking mode: a call returns when it is on the stream. It saves the thread that
    /// NCCL starts for each call of a non-blocking communicator.
    bool blocking = false;
    NcclWatchdog watchdog;
};

}  // namespace autolaunch
