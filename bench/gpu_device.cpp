#include "gpu_device.hpp"

#include "comm/gpu_place.hpp"
#include "comm/nccl/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

namespace autolaunch::bench {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

class GpuDevice final : public PerfDevice {
public:
    explicit GpuDevice(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {
        const CudaDevice::Current current(*device_);
        stream_ = device_->make_stream();
    }

    std::string description() const override { return fmt::format("{:2} [GPU]", device_->index()); }
    std::size_t block_alignment() const override {
        return 16;
    }  // as nccl-tests, for NCCL's wide loads
    Stream stream() const override { return Stream::cuda(device_->index(), stream_.get()); }

    std::shared_ptr<void> allocate(std::size_t bytes) override {
        std::shared_ptr<void> memory;
        {
            const CudaDevice::Current current(*device_);
            memory = device_->allocate(std::max<std::size_t>(bytes, 1));
        }
        set(memory.get(), 0, bytes);
        return memory;
    }

    // Waits: the host's memory may be used again at once.
    void write(void* to, const void* from_host, std::size_t bytes) override {
        copy_and_wait(to, from_host, bytes);
    }
    void read(void* to_host, const void* from, std::size_t bytes) override {
        copy_and_wait(to_host, from, bytes);
    }

    void set(void* to, unsigned char value, std::size_t bytes) override {
        const std::vector<unsigned char> piece(std::min(bytes, kPieceBytes), value);
        for (std::size_t done = 0; done < bytes; done += kPieceBytes)
            copy(static_cast<unsigned char*>(to) + done, piece.data(),
                 std::min(kPieceBytes, bytes - done));
        wait();
    }

    void copy(void* to, const void* from, std::size_t bytes) override {
        if (bytes == 0)
            return;
        const CudaDevice::Current current(*device_);
        device_->copy(to, from, bytes, stream_.get());
    }

    void begin_graph() override {
        const CudaDevice::Current current(*device_);
        device_->begin_capture(stream_.get());
    }

    void end_graph() override {
        const CudaDevice::Current current(*device_);
        graph_ = device_->end_capture(stream_.get());
    }

    void launch_graph() override {
        const CudaDevice::Current current(*device_);
        device_->launch(graph_, stream_.get());
    }

    void wait() override {
        const CudaDevice::Current current(*device_);
        const CudaDevice::Event reached = device_->record(stream_.get());
        while (!device_->is_over(reached))
            std::this_thread::yield();
    }

private:
    void copy_and_wait(void* to, const void* from, std::size_t bytes) {
        copy(to, from, bytes);
        wait();
    }

    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Stream stream_;
    CudaDevice::Graph graph_;
};

}  // namespace

std::unique_ptr<PerfDevice> open_gpu(const RankInfo& info) {
    const GpuPlace place = place_on_gpu(std::getenv("CUDA_VISIBLE_DEVICES"),
                                        installed_gpus("/proc/driver/nvidia/gpus"), info);
    return std::make_unique<GpuDevice>(CudaDevice::open("libcuda.so.1", place.index));
}

}  // namespace autolaunch::bench
