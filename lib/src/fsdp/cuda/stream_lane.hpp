#pragma once
#include "comm/nccl/cuda_device.hpp"
#include "fsdp/lane.hpp"

#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <string>

namespace autolaunch::fsdp {

/// A lane of a GPU: a stream of the highest priority that waits for fences, and whose jobs others
/// wait for. The host waits for none of it but in synchronize() and the destructor.
class StreamLane final : public Lane {
public:
    /// No wait for the GPU is longer; collectives have ended by then, for their communicators have
    /// timeouts.
    static constexpr std::chrono::milliseconds kLongestWait = std::chrono::minutes(30);

    StreamLane(std::shared_ptr<CudaDevice> device, std::vector<Communicator> communicators,
               bool beside);
    ~StreamLane() override;

    Fence submit(const std::string& unit, std::string_view subject, Job job,
                 std::span<const Fence> after) override;
    Fence latest() const override { return {{}, latest_}; }
    void check() override;
    void synchronize() override;
    bool is_beside() const noexcept override { return beside_; }

private:
    struct Submitted {
        std::string name;
        CudaDevice::Event end;
    };
    void forget_ended();

    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Stream stream_;
    CudaDevice::Event latest_;
    std::deque<Submitted> under_way_;  // those not known to have ended well
    std::exception_ptr failure_;
    bool beside_;
};

}  // namespace autolaunch::fsdp
