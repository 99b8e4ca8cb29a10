#include "fsdp/model_device.hpp"

#include "comm/communicator_device.hpp"
#include "fsdp/cast.hpp"
#include "fsdp/cuda/cuda_model_device.hpp"
#include "fsdp/thread_lane.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace autolaunch::fsdp {

namespace {

// Starts on a page, and has whole ones, so that it can be written with O_DIRECT.
std::shared_ptr<void> zeroed_pages(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    const std::size_t pages = std::max<std::size_t>(1, (bytes + kPage - 1) / kPage);
    void* memory = std::aligned_alloc(kPage, pages * kPage);
    if (memory == nullptr)
        throw std::bad_alloc();
    std::memset(memory, 0, pages * kPage);
    return {memory, &std::free};
}

class CpuModelDevice final : public ModelDevice {
public:
    bool is_gpu() const noexcept override { return false; }

    Stream stream_for(Stream given) const override {
        if (given.is_given())
            throw Error(ErrorCode::unsupported, "a model in the CPU's memory takes no streams",
                        "pass no stream, or a default-constructed one; for a GPU give ShardedModel "
                        "a communicator with "
                        "backend nccl");
        return given;
    }

    CommunicatorBuffer allocate(const std::optional<Communicator>& communicator,
                                std::size_t bytes) override {
        if (!communicator)
            return allocate_on_host(bytes);
        CommunicatorBuffer buffer = Communicator(*communicator).allocate(bytes);
        std::memset(buffer.data(), 0, bytes);
        return buffer;
    }

    CommunicatorBuffer allocate_on_host(std::size_t bytes) override {
        return {zeroed_pages(bytes), bytes};
    }

    std::unique_ptr<Lane> make_lane(std::vector<Communicator> communicators, bool beside) override {
        return std::make_unique<ThreadLane>(std::move(communicators), beside);
    }

    std::unique_ptr<OrderedSums> make_ordered_sums(const std::optional<Communicator>&,
                                                   std::size_t) override {
        return nullptr;
    }

    std::shared_ptr<const StateArrival> arrival_of(const Fence&) const override { return nullptr; }

    Fence record(Stream) override { return {}; }
    void wait(Stream, const Fence& fence) override { wait(fence); }
    void wait(const Fence& fence) override { Work(fence.work).wait(); }

    void fill(void* memory, std::uint8_t value, std::size_t bytes, Stream) override {
        if (bytes > 0)
            std::memset(memory, value, bytes);
    }
    void copy(void* to, const void* from, std::size_t bytes, Stream) override {
        if (bytes > 0)
            std::memcpy(to, from, bytes);
    }
    void cast(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count,
              Stream) override {
        fsdp::cast(to, to_type, from, from_type, count);
    }
    void accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                    std::size_t count, Stream) override {
        fsdp::accumulate(to, to_type, from, from_type, count);
    }
    void find_nonfinite(const void* values, DataType type, std::size_t count, std::uint64_t* first,
                        Stream) override {
        if (const auto found = first_nonfinite(values, type, count))
            *first = std::min<std::uint64_t>(*first, *found);
    }
    void write(void* to, const void* from, std::size_t bytes, Stream stream) override {
        copy(to, from, bytes, stream);
    }
    void read(void* to, const void* from, std::size_t bytes, Stream stream) override {
        copy(to, from, bytes, stream);
    }
};

}  // namespace

std::unique_ptr<ModelDevice> ModelDevice::of(const Communicator& communicator) {
    if (auto gpu = cuda_device_of(communicator))
        return make_cuda_model_device(std::move(gpu));
    return std::make_unique<CpuModelDevice>();
}

}  // namespace autolaunch::fsdp
