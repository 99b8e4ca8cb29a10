#pragma once
// One GPU as the library uses it: streams, events, memory and kernels. All that touches CUDA is
// here.
#include "comm/nccl/cuda_driver.hpp"
#include "comm/nccl/scale_kernels.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

/// A device's primary context, the one that the CUDA runtime, NCCL and the trainer use.
///
/// Owner: the communicators on the device, by shared_ptr. Threads: any. Blocks: only loading and
/// allocating. Errors: Error{system}.
class CudaDevice : public std::enable_shared_from_this<CudaDevice> {
public:
    using Stream = std::shared_ptr<CUstream_st>;
    using Event = std::shared_ptr<CUevent_st>;
    using Graph = std::shared_ptr<CUgraphExec_st>;
    using Module = std::shared_ptr<CUmod_st>;

    /// Loads the driver and makes the context.
    static std::shared_ptr<CudaDevice> open(const std::string& driver_library, int index);
    ~CudaDevice();
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    int index() const noexcept { return index_; }

    /// The device is the calling thread's own while this lives; then what was before is again.
    /// Every other function here, and every one of NCCL's, is called under it.
    class Current {
    public:
        explicit Current(const CudaDevice& device);
        /// For destructors: false where the driver has ended or the context is broken, and nothing
        /// can be freed any more.
        Current(const CudaDevice& device, std::nothrow_t) noexcept;
        explicit operator bool() const noexcept { return is_current_; }
        ~Current();
        Current(const Current&) = delete;
        Current& operator=(const Current&) = delete;

    private:
        const CudaDriver& driver_;
        bool is_current_;
    };

    /// Of the highest priority; waits for no other stream.
    Stream make_stream();
    /// What was put on the stream so far. From a pool, where it goes back to.
    Event record(CUstream stream);
    bool is_over(const Event& event) const;
    /// What is put on the stream from here on runs after the event. The calling thread does not
    /// wait.
    void wait(CUstream stream, const Event& event) const;
    /// The calling thread waits; throws TimeoutError.
    void wait(const Event& event, std::chrono::milliseconds timeout) const;

    /// What this thread puts on the stream from begin to end is not done, but becomes a graph,
    /// which launch() puts on a stream as often as wanted.
    void begin_capture(CUstream stream) const;
    Graph end_capture(CUstream stream);
    void launch(const Graph& graph, CUstream stream) const;
    bool is_capturing(CUstream stream) const;

    std::shared_ptr<void> allocate(std::size_t bytes);
    /// Of the CPU, and such that copies to and from it go on beside both. Zeroed.
    std::shared_ptr<void> allocate_pinned(std::size_t bytes);
    /// In the order of the stream.
    void* allocate_on(CUstream stream, std::size_t bytes) const;
    void free_on(CUstream stream, void* memory) const;
    void copy(void* to, const void* from, std::size_t bytes, CUstream stream) const;
    void fill(void* memory, std::uint8_t value, std::size_t bytes, CUstream stream) const;
    bool is_device_memory(const void* pointer) const noexcept;
    /// Each of the `count` elements divided or multiplied by `number`.
    void scale(Scaling scaling, void* data, std::size_t count, DataType type, double number,
               CUstream stream);
    /// Kernels in a format that cuModuleLoadData takes. They stay as long as the context.
    Module load(const void* image);
    CUfunction kernel(const Module& module, const std::string& name) const;
    /// With one parameter, which is copied.
    void launch(CUfunction kernel, unsigned blocks, unsigned threads, const void* parameter,
                CUstream stream) const;
    /// For threads that look at events while others capture graphs.
    void let_capture_be() const noexcept;

private:
    CudaDevice(CudaDriver driver, int index, CUdevice device, CUcontext context);
    CUmodule load_module(const void* image) const;

    CudaDriver driver_;
    int index_;
    CUdevice device_;
    CUcontext context_;
    std::mutex mutex_;
    std::vector<CUevent> idle_events_;
    CUmodule kernels_ = nullptr;  // loaded when first used
};

}  // namespace autolaunch
