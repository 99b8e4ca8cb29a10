#include "fsdp/cuda/cuda_model_device.hpp"

#include "fsdp/cuda/cuda_kernels.hpp"
#include "fsdp/cuda/cuda_ordered_sums.hpp"
#include "fsdp/cuda/stream_lane.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch::fsdp {

namespace {

class EventArrival final : public StateArrival {
public:
    EventArrival(std::shared_ptr<CudaDevice> device, CudaDevice::Event event)
        : device_(std::move(device)), event_(std::move(event)) {}

    void wait() const override {
        const CudaDevice::Current current(*device_);
        device_->wait(event_, StreamLane::kLongestWait);
    }

private:
    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Event event_;
};

class CudaModelDevice final : public ModelDevice {
public:
    explicit CudaModelDevice(std::shared_ptr<CudaDevice> device)
        : device_(std::move(device)), kernels_(device_) {
        const CudaDevice::Current current(*device_);
        own_stream_ = device_->make_stream();
    }

    bool is_gpu() const noexcept override { return true; }

    Stream stream_for(Stream given) const override {
        if (!given.is_given())
            return Stream::cuda(device_->index(), nullptr);
        if (given.device() != Device{DeviceType::cuda, device_->index()})
            throw Error(
                ErrorCode::unsupported,
                "the model is on GPU " + std::to_string(device_->index()) +
                    ", but the stream is not",
                "pass Stream::cuda(" + std::to_string(device_->index()) + ", your cudaStream_t)");
        return given;
    }

    CommunicatorBuffer allocate(const std::optional<Communicator>& communicator,
                                std::size_t bytes) override {
        const CudaDevice::Current current(*device_);
        CommunicatorBuffer buffer = communicator
                                        ? Communicator(*communicator).allocate(bytes)
                                        : CommunicatorBuffer(device_->allocate(bytes), bytes);
        device_->fill(buffer.data(), 0, bytes, own_stream_.get());
        device_->wait(device_->record(own_stream_.get()), StreamLane::kLongestWait);
        return buffer;
    }

    CommunicatorBuffer allocate_on_host(std::size_t bytes) override {
        const CudaDevice::Current current(*device_);
        return {device_->allocate_pinned(bytes), bytes};
    }

    std::unique_ptr<Lane> make_lane(std::vector<Communicator> communicators, bool beside) override {
        return std::make_unique<StreamLane>(device_, std::move(communicators), beside);
    }

    std::unique_ptr<OrderedSums> make_ordered_sums(const std::optional<Communicator>& communicator,
                                                   std::size_t elements) override {
        return std::make_unique<CudaOrderedSums>(kernels_,
                                                 allocate(communicator, elements * sizeof(float)));
    }

    std::shared_ptr<const StateArrival> arrival_of(const Fence& fence) const override {
        return std::make_shared<EventArrival>(device_, fence.event);
    }

    Fence record(Stream stream) override {
        const CudaDevice::Current current(*device_);
        return {{}, device_->record(handle_of(stream))};
    }
    void wait(Stream stream, const Fence& fence) override {
        if (!fence.event)
            return;
        const CudaDevice::Current current(*device_);
        device_->wait(handle_of(stream), fence.event);
    }
    void wait(const Fence& fence) override {
        if (!fence.event)
            return;
        const CudaDevice::Current current(*device_);
        device_->wait(fence.event, StreamLane::kLongestWait);
    }

    void fill(void* memory, std::uint8_t value, std::size_t bytes, Stream stream) override {
        const CudaDevice::Current current(*device_);
        device_->fill(memory, value, bytes, handle_of(stream));
    }
    void copy(void* to, const void* from, std::size_t bytes, Stream stream) override {
        const CudaDevice::Current current(*device_);
        device_->copy(to, from, bytes, handle_of(stream));
    }
    void cast(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count,
              Stream stream) override {
        const CudaDevice::Current current(*device_);
        kernels_.cast(to, to_type, from, from_type, count, handle_of(stream));
    }
    void accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                    std::size_t count, Stream stream) override {
        const CudaDevice::Current current(*device_);
        kernels_.accumulate(to, to_type, from, from_type, count, handle_of(stream));
    }
    void find_nonfinite(const void* values, DataType type, std::size_t count, std::uint64_t* first,
                        Stream stream) override {
        const CudaDevice::Current current(*device_);
        kernels_.find_nonfinite(values, type, count, first, handle_of(stream));
    }

    void write(void* to, const void* from, std::size_t bytes, Stream stream) override {
        copy(to, from, bytes, stream);
        wait(record(stream));
    }
    void read(void* to, const void* from, std::size_t bytes, Stream stream) override {
        copy(to, from, bytes, stream);
        wait(record(stream));
    }

private:
    std::shared_ptr<CudaDevice> device_;
    CudaKernels kernels_;
    CudaDevice::Stream own_stream_;  // of allocations
};

}  // namespace

std::unique_ptr<ModelDevice> make_cuda_model_device(std::shared_ptr<CudaDevice> device) {
    return std::make_unique<CudaModelDevice>(std::move(device));
}

}  // namespace autolaunch::fsdp
