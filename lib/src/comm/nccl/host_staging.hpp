#pragma once
// Calls on host memory: copies of their buffers on the GPU.
#include "comm/call.hpp"
#include "comm/nccl/cuda_device.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace autolaunch {

/// For calls without a stream, whose buffers may be anywhere: how ranks agree on a flag or a loss.
/// GPU memory is used as it is. The copies are kept between calls, and grow, but for large ones.
///
/// Owner: a backend. Threads: one at a time. Blocks: for what CUDA blocks when it copies memory
/// that is not pinned.
class HostStaging {
public:
    explicit HostStaging(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

    /// The calls with their host buffers replaced, and what is sent copied in.
    std::vector<CollectiveCall> copy_in(std::span<const CollectiveCall> calls, int rank,
                                        CUstream stream);
    /// What `calls`, the original ones, received.
    void copy_out(std::span<const CollectiveCall> calls, std::span<const CollectiveCall> staged,
                  int rank, CUstream stream);

    /// Frees what is too large to keep from training. All work on the copies is over.
    void free_large() noexcept;
    /// Never frees the copies: work that does not end may be at them.
    void abandon() noexcept;

private:
    std::byte* take(std::size_t bytes);

    std::shared_ptr<CudaDevice> device_;
    std::vector<std::shared_ptr<void>> memory_;  // as many pieces as calls of one group ever had
    std::vector<std::size_t> bytes_;
    std::size_t used_ = 0;
};

}  // namespace autolaunch
