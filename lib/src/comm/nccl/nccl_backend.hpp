#pragma once
// Collectives on GPUs, through NCCL.
#include "base/deadline.hpp"
#include "comm/backend.hpp"
#include "comm/nccl/host_staging.hpp"
#include "comm/nccl/nccl_calls.hpp"
#include "comm/nccl/nccl_group.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch {

struct NcclOptions {
    std::string cuda_library = "libcuda.so.1";
    std::string nccl_library = "libnccl.so.2";
    int device_index = 0;
    std::chrono::milliseconds timeout{600'000};
    bool blocking = false;  ///< see NcclRuntime
};

/// Calls on a CUDA stream return a Work as soon as NCCL has put them there. Calls without a stream
/// are done when they return, on a stream of their own, and take host memory, too.
/// docs/nccl-backend.md says what fails how.
///
/// avg is ncclSum and a division of ours; pre_multiplied_sum is NCCL's, which rounds the factor to
/// the data type. bf16 and f16 sums are rounded at every hop where NCCL's algorithm does so.
class NcclBackend final : public CommunicatorBackend {
public:
    /// Collective. `name` is unique in the job's generation and equal on all ranks. Makes the CUDA
    /// context.
    static std::shared_ptr<NcclBackend> create(const NcclRendezvous& rendezvous,
                                               const std::string& name, int rank, int size,
                                               const NcclOptions& options);
    explicit NcclBackend(std::shared_ptr<NcclGroup> group);
    ~NcclBackend() override;

    /// For after this backend's life: waits until nothing that was made of it is on the GPU any
    /// more, and throws Error where something is at the deadline, or the GPU takes no more work
    /// from this process (a CUDA error that stays).
    std::function<void(const Deadline&)> end_of_use() const;

    std::string_view name() const noexcept override { return "nccl"; }
    int rank() const noexcept override { return group_->rank(); }
    int size() const noexcept override { return group_->size(); }
    DeviceType device_type() const noexcept override { return DeviceType::cuda; }
    std::shared_ptr<CudaDevice> cuda_device() const override { return group_->runtime().device; }

    Work start(const CollectiveCall& call, Stream stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream stream) override;
    void barrier() override;
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    std::shared_ptr<CommunicatorBackend> shrink(std::span<const int> lost) override;
    void abort(const std::string& reason) override;
    CommunicatorStatus status() const override;
    void check() const override { group_->check(); }

private:
    NcclPlace place(CUstream stream) const;
    CUstream own_stream();
    void run_on_host(std::span<const CollectiveCall> calls);
    void enqueue_group(std::span<const CollectiveCall> calls, CUstream stream);
    void enqueue_collective(const CollectiveCall& call, CUstream stream);

    std::shared_ptr<NcclGroup> group_;
    CudaDevice::Stream own_stream_;  // of calls without a stream; made when first needed
    HostStaging staging_;
    int parts_made_ = 0;
};

}  // namespace autolaunch
