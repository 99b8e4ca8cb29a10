#include "comm/nccl/cuda_device.hpp"

#include "base/deadline.hpp"
#include "comm/nccl/backoff.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace autolaunch {
namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// As a kernel's parameter. The widest first: all start at the same address.
union Number {
    double f64;
    float f32;
    std::int64_t s64;
    std::uint64_t u64;
};

Number number_for(DataType type, double value) {
    Number number{};
    switch (type) {
        case DataType::f64:
            number.f64 = value;
            break;
        case DataType::f32:
        case DataType::bf16:
        case DataType::f16:
            number.f32 = static_cast<float>(value);
            break;
        case DataType::i8:
        case DataType::i32:
        case DataType::i64:
            number.s64 = static_cast<std::int64_t>(value);
            break;
        case DataType::u8:
        case DataType::u32:
        case DataType::u64:
            number.u64 = static_cast<std::uint64_t>(value);
            break;
    }
    return number;
}

}  // namespace

std::shared_ptr<CudaDevice> CudaDevice::open(const std::string& driver_library, int index) {
    CudaDriver driver = CudaDriver::load(driver_library);
    int count = 0;
    driver.check(driver.cuDeviceGetCount(&count), "count the GPUs");
    if (index < 0 || index >= count) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("this rank's GPU would be number {} of {}", index, count),
                    "start no more ranks on a node than it has GPUs, or use another backend");
    }
    CUdevice device = 0;
    driver.check(driver.cuDeviceGet(&device, index), "find this rank's GPU");
    CUcontext context = nullptr;
    driver.check(driver.cuDevicePrimaryCtxRetain(&context, device), "make a CUDA context");
    return std::shared_ptr<CudaDevice>(new CudaDevice(driver, index, device, context));
}

CudaDevice::CudaDevice(CudaDriver driver, int index, CUdevice device, CUcontext context)
    : driver_(driver), index_(index), device_(device), context_(context) {}

CudaDevice::~CudaDevice() {
    {
        const Current current(*this, std::nothrow);
        for (CUevent event : idle_events_)
            if (current)
                driver_.cuEventDestroy(event);
    }
    // The kernels' module goes with the context, which others may still use.
    driver_.cuDevicePrimaryCtxRelease(device_);
}

CudaDevice::Current::Current(const CudaDevice& device)
    : driver_(device.driver_), is_current_(true) {
    driver_.check(driver_.cuCtxPushCurrent(device.context_), "make the GPU current");
}

CudaDevice::Current::Current(const CudaDevice& device, std::nothrow_t) noexcept
    : driver_(device.driver_),
      is_current_(driver_.cuCtxPushCurrent(device.context_) == CUDA_SUCCESS) {}

CudaDevice::Current::~Current() {
    if (!is_current_)
        return;
    CUcontext before = nullptr;
    driver_.cuCtxPopCurrent(&before);
}

CudaDevice::Stream CudaDevice::make_stream() {
    CUstream stream = nullptr;
    // A number below the device's range means its highest priority.
    constexpr int kHighestPriority = -100;
    driver_.check(
        driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, kHighestPriority),
        "make a CUDA stream");
    return {stream, [device = shared_from_this()](CUstream gone) {
                if (const Current current(*device, std::nothrow); current)
                    device->driver_.cuStreamDestroy(gone);
            }};
}

CudaDevice::Event CudaDevice::record(CUstream stream) {
    CUevent event = nullptr;
    {
        const std::scoped_lock lock(mutex_);
        if (!idle_events_.empty()) {
            event = idle_events_.back();
            idle_events_.pop_back();
        }
    }
    if (event == nullptr)
        driver_.check(driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "make a CUDA event");
    Event owned(event, [device = shared_from_this()](CUevent idle) {
        const std::scoped_lock lock(device->mutex_);
        device->idle_events_.push_back(idle);
    });
    driver_.check(driver_.cuEventRecord(event, stream), "record a CUDA event");
    return owned;
}

bool CudaDevice::is_over(const Event& event) const {
    const CUresult result = driver_.cuEventQuery(event.get());
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    driver_.check(result, "see whether the GPU is done");
    return true;
}

void CudaDevice::wait(CUstream stream, const Event& event) const {
    driver_.check(driver_.cuStreamWaitEvent(stream, event.get(), CU_EVENT_WAIT_DEFAULT),
                  "order CUDA streams");
}

void CudaDevice::wait(const Event& event, std::chrono::milliseconds timeout) const {
    const Deadline deadline = Deadline::after(timeout);
    for (Backoff backoff; !is_over(event); backoff.pause())
        if (deadline.passed())
            throw TimeoutError(
                fmt::format("GPU {} was not done after {} s", index_, timeout.count() / 1000));
}

void CudaDevice::begin_capture(CUstream stream) const {
    driver_.check(driver_.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "begin a CUDA graph");
}

CudaDevice::Graph CudaDevice::end_capture(CUstream stream) {
    CUgraph graph = nullptr;
    driver_.check(driver_.cuStreamEndCapture(stream, &graph), "end a CUDA graph");
    CUgraphExec launchable = nullptr;
    const CUresult result = driver_.cuGraphInstantiateWithFlags(&launchable, graph, 0);
    driver_.cuGraphDestroy(graph);
    driver_.check(result, "make a CUDA graph ready");
    return {launchable, [device = shared_from_this()](CUgraphExec gone) {
                if (const Current current(*device, std::nothrow); current)
                    device->driver_.cuGraphExecDestroy(gone);
            }};
}

void CudaDevice::launch(const Graph& graph, CUstream stream) const {
    driver_.check(driver_.cuGraphLaunch(graph.get(), stream), "launch a CUDA graph");
}

bool CudaDevice::is_capturing(CUstream stream) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    driver_.check(driver_.cuStreamIsCapturing(stream, &status),
                  "see whether a stream makes a CUDA graph");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

std::shared_ptr<void> CudaDevice::allocate(std::size_t bytes) {
    CUdeviceptr memory = 0;
    driver_.check(driver_.cuMemAlloc(&memory, std::max<std::size_t>(bytes, 1)),
                  "allocate GPU memory");
    return {pointer_to(memory), [device = shared_from_this()](void* gone) {
                if (const Current current(*device, std::nothrow); current)
                    device->driver_.cuMemFree(address(gone));
            }};
}

std::shared_ptr<void> CudaDevice::allocate_pinned(std::size_t bytes) {
    void* memory = nullptr;
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    driver_.check(driver_.cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE),
                  "allocate pinned memory");
    std::memset(memory, 0, size);
    return {memory, [device = shared_from_this()](void* gone) {
                if (const Current current(*device, std::nothrow); current)
                    device->driver_.cuMemFreeHost(gone);
            }};
}

void* CudaDevice::allocate_on(CUstream stream, std::size_t bytes) const {
    CUdeviceptr memory = 0;
    driver_.check(driver_.cuMemAllocAsync(&memory, bytes, stream), "allocate GPU memory");
    return pointer_to(memory);
}

void CudaDevice::free_on(CUstream stream, void* memory) const {
    driver_.cuMemFreeAsync(address(memory), stream);
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes, CUstream stream) const {
    if (bytes == 0 || to == from)
        return;
    driver_.check(driver_.cuMemcpyAsync(address(to), address(from), bytes, stream),
                  "copy GPU memory");
}

void CudaDevice::fill(void* memory, std::uint8_t value, std::size_t bytes, CUstream stream) const {
    if (bytes == 0)
        return;
    driver_.check(driver_.cuMemsetD8Async(address(memory), value, bytes, stream),
                  "fill GPU memory");
}

bool CudaDevice::is_device_memory(const void* pointer) const noexcept {
    unsigned int kind = 0;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void* answer = &kind;
    // Of memory that CUDA does not know this says 0. cuPointerGetAttribute would fail, which
    // debuggers report.
    const CUresult result =
        driver_.cuPointerGetAttributes(1, &attribute, &answer, address(pointer));
    return result == CUDA_SUCCESS && kind == CU_MEMORYTYPE_DEVICE;
}

void CudaDevice::scale(Scaling scaling, void* data, std::size_t count, DataType type, double number,
                       CUstream stream) {
    if (count == 0)
        return;
    CUfunction kernel = nullptr;
    {
        const std::scoped_lock lock(mutex_);
        if (kernels_ == nullptr)
            kernels_ = load_module(scale_kernels_ptx().c_str());
        driver_.check(driver_.cuModuleGetFunction(&kernel, kernels_,
                                                  scale_kernel_name(scaling, type).c_str()),
                      "find a kernel");
    }
    constexpr unsigned kThreads = 256;
    constexpr std::size_t kMostBlocks =
        2048;  // fills the largest GPUs; a thread takes several elements beyond it
    const auto blocks =
        static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
    Number parameter = number_for(type, number);
    std::uint64_t elements = count;
    void* parameters[] = {&data, &elements, &parameter};
    driver_.check(driver_.cuLaunchKernel(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream,
                                         parameters, nullptr),
                  "scale a buffer");
}

CudaDevice::Module CudaDevice::load(const void* image) {
    return {load_module(image),
            [](CUmodule) {}};  // goes with the context, which others may still use
}

// Kernels are loaded when first used, which may be while this thread captures a graph: CUDA refuses
// to load them then, and ends the capture, unless it is told that the graph does not depend on it.
CUmodule CudaDevice::load_module(const void* image) const {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver_.cuThreadExchangeStreamCaptureMode(&mode);
    CUmodule module = nullptr;
    const CUresult result = driver_.cuModuleLoadData(&module, image);
    driver_.cuThreadExchangeStreamCaptureMode(&mode);
    driver_.check(result, "load our kernels");
    return module;
}

CUfunction CudaDevice::kernel(const Module& module, const std::string& name) const {
    CUfunction function = nullptr;
    driver_.check(driver_.cuModuleGetFunction(&function, module.get(), name.c_str()),
                  "find a kernel");
    return function;
}

void CudaDevice::launch(CUfunction kernel, unsigned blocks, unsigned threads, const void* parameter,
                        CUstream stream) const {
    void* parameters[] = {const_cast<void*>(parameter)};
    driver_.check(
        driver_.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
        "launch a kernel");
}

void CudaDevice::let_capture_be() const noexcept {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver_.cuThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace autolaunch
