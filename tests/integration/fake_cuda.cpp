// See fake_gpu.hpp.
#include "fake_gpu.hpp"

#include <autolaunch/comm/types.hpp>

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace autolaunch;

using MakeWork = std::function<std::function<void()>()>;

struct CUgraph_st {
    std::vector<MakeWork> nodes;
    std::vector<void*> memory;
    bool is_invalid = false;
};

struct CUgraphExec_st {
    std::vector<MakeWork> nodes;
    std::vector<void*> memory;  // of allocations that are nodes: they have an address of their own
                                // for the graph's life
};

struct CUstream_st {
    CUstream_st() : thread([this] { serve(); }) { thread.detach(); }
    void put(std::function<void()> work) {
        const std::scoped_lock lock(mutex);
        waiting.push_back(std::move(work));
        changed.notify_all();
    }
    void serve() {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [&] { return !waiting.empty(); });
            auto work = std::move(waiting.front());
            waiting.pop_front();
            lock.unlock();
            if (const int most = fake_gpu::control().jitter_us; most > 0)
                std::this_thread::sleep_for(
                    std::chrono::microseconds(random() % static_cast<unsigned>(most)));
            work();
            work = nullptr;
            lock.lock();
        }
    }
    std::unique_ptr<CUgraph_st> graph;  // while one is made
    std::minstd_rand random{static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(this) >> 4)};
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    std::thread thread;  // last: it uses the others
};

struct CUevent_st {
    std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(true);
    bool captured = false;
};

struct CUfunc_st {
    std::string name;
};

namespace {

// Nothing here is freed at exit: stream threads may still use it.
std::mutex& memory_mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
}
using Blocks = std::map<std::uintptr_t, std::size_t>;
Blocks& memory() {
    static auto* map = new Blocks;
    return *map;
}
Blocks& pinned_memory() {
    static auto* map = new Blocks;
    return *map;
}

bool is_in(const Blocks& blocks, std::uintptr_t address) {
    const std::scoped_lock lock(memory_mutex());
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin())
        return false;
    --after;
    return address < after->first + after->second;
}
bool is_device(std::uintptr_t address) { return is_in(memory(), address); }

/// A module is its image; those that nvcc made say how long they are.
constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
struct FatbinHeader {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
};
std::string image_of(const void* image) {
    FatbinHeader header;
    std::memcpy(&header, image, sizeof header);
    if (header.magic != kFatbinMagic)
        return static_cast<const char*>(image);
    return {static_cast<const char*>(image), header.header_bytes + header.bytes};
}

thread_local std::vector<CUcontext> contexts;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local std::vector<CUstream> captures;  // of this thread

template <class T, class A>
void scale(bool divide, void* data, std::uint64_t count, A number) {
    auto* elements = static_cast<T*>(data);
    for (std::uint64_t i = 0; i < count; ++i) {
        const A value = static_cast<A>(elements[i]);
        elements[i] = static_cast<T>(divide ? value / number : value * number);
    }
}

void run_kernel(const std::string& name, void* data, std::uint64_t count, const std::byte* number) {
    const bool divide = name.starts_with("divide_");
    const std::string type = name.substr(name.find('_') + 1);
    const auto get = [&](auto value) {
        std::memcpy(&value, number, sizeof value);
        return value;
    };
    if (type == "f32")
        scale<float>(divide, data, count, get(0.0f));
    if (type == "f64")
        scale<double>(divide, data, count, get(0.0));
    if (type == "bf16")
        scale<bfloat16>(divide, data, count, get(0.0f));
    if (type == "f16")
        scale<float16>(divide, data, count, get(0.0f));
    if (type == "i8")
        scale<std::int8_t>(divide, data, count, get(std::int64_t{}));
    if (type == "i32")
        scale<std::int32_t>(divide, data, count, get(std::int64_t{}));
    if (type == "i64")
        scale<std::int64_t>(divide, data, count, get(std::int64_t{}));
    if (type == "u8")
        scale<std::uint8_t>(divide, data, count, get(std::uint64_t{}));
    if (type == "u32")
        scale<std::uint32_t>(divide, data, count, get(std::uint64_t{}));
    if (type == "u64")
        scale<std::uint64_t>(divide, data, count, get(std::uint64_t{}));
}

}  // namespace

namespace fake_gpu {

FakeGpuControl& control() {
    static auto* control = new FakeGpuControl;
    return *control;
}

void put_on(CUstream_st* stream, std::function<void()> work) {
    static auto* default_stream = new CUstream_st;
    CUstream_st& target = *(stream == nullptr ? default_stream : stream);
    if (target.graph)
        return target.graph->nodes.push_back([work = std::move(work)] { return work; });
    target.put(std::move(work));
}

void put_made_on(CUstream_st* stream, MakeWork make) {
    if (stream != nullptr && stream->graph)
        return stream->graph->nodes.push_back(std::move(make));
    put_on(stream, make());
}

bool has_context() { return !contexts.empty(); }

void* allocate(std::size_t bytes) {
    const std::size_t whole = (bytes + 4095) / 4096 * 4096;
    void* block = std::aligned_alloc(4096, whole);
    std::memset(block, 0xa5, whole);  // as full of others' numbers as a GPU's
    const std::scoped_lock lock(memory_mutex());
    memory()[reinterpret_cast<std::uintptr_t>(block)] = whole;
    ++control().allocations;
    return block;
}

void release(void* block) {
    {
        const std::scoped_lock lock(memory_mutex());
        if (memory().erase(reinterpret_cast<std::uintptr_t>(block)) == 0) {
            ++control().wrong_uses;
            return;
        }
    }
    --control().allocations;
    std::free(block);
}

}  // namespace fake_gpu

extern "C" {
#pragma GCC visibility push(default)

FakeGpuControl* fake_gpu_control() { return &fake_gpu::control(); }
void fake_gpu_launch(CUstream_st* stream, void (*work)(void*), void* data) {
    fake_gpu::put_on(stream, [=] { work(data); });
}

#define NEEDS_CONTEXT     \
    if (contexts.empty()) \
    return CUDA_ERROR_INVALID_CONTEXT

CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) {
    const char* text = std::getenv("FAKE_GPU_COUNT");
    *count = text == nullptr ? 16 : std::atoi(text);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
    *device = index;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    ++fake_gpu::control().contexts;
    *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
    --fake_gpu::control().contexts;
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
    if (fake_gpu::control().driver_has_ended)
        return CUDA_ERROR_DEINITIALIZED;
    contexts.push_back(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
    NEEDS_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int, int) {
    NEEDS_CONTEXT;
    *stream = new CUstream_st;
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }  // its thread goes with the process
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    NEEDS_CONTEXT;
    if (stream == nullptr || stream->graph)
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->graph = std::make_unique<CUgraph_st>();
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        captures.push_back(stream);
    return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    NEEDS_CONTEXT;
    if (stream == nullptr || !stream->graph)
        return CUDA_ERROR_ILLEGAL_STATE;
    std::erase(captures, stream);
    std::unique_ptr<CUgraph_st> made = std::move(stream->graph);
    if (made->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph = made.release();
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    NEEDS_CONTEXT;
    const bool is = stream != nullptr && stream->graph != nullptr;
    *status = is ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* launchable, CUgraph graph, unsigned long long) {
    NEEDS_CONTEXT;
    *launchable = new CUgraphExec_st{graph->nodes, graph->memory};
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
    NEEDS_CONTEXT;
    for (const MakeWork& make : graph->nodes)
        fake_gpu::put_made_on(stream, make);
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
    for (void* block : graph->memory)
        fake_gpu::release(block);
    delete graph;
    return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
    delete graph;
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned int) {
    NEEDS_CONTEXT;
    *event = new CUevent_st;
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
    delete event;
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    NEEDS_CONTEXT;
    event->captured = stream != nullptr && stream->graph != nullptr;
    if (event->captured)
        return CUDA_SUCCESS;
    event->reached = std::make_shared<std::atomic<bool>>(false);
    fake_gpu::put_on(stream, [reached = event->reached] {
        *reached = true;
        reached->notify_all();
    });
    return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
    NEEDS_CONTEXT;
    fake_gpu::put_on(stream, [reached = event->reached] { reached->wait(false); });
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
    NEEDS_CONTEXT;
    if (event->captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    return *event->reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
    NEEDS_CONTEXT;
    *pointer = reinterpret_cast<CUdeviceptr>(fake_gpu::allocate(bytes));
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr pointer) {
    NEEDS_CONTEXT;
    fake_gpu::release(reinterpret_cast<void*>(pointer));
    return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
    const CUresult result = cuMemAlloc(pointer, bytes);
    if (result == CUDA_SUCCESS && stream != nullptr && stream->graph)
        stream->graph->memory.push_back(reinterpret_cast<void*>(*pointer));
    return result;
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    NEEDS_CONTEXT;
    if (stream != nullptr && stream->graph)
        return CUDA_SUCCESS;  // a node; see CUgraphExec_st
    fake_gpu::put_on(stream, [pointer] { fake_gpu::release(reinterpret_cast<void*>(pointer)); });
    return CUDA_SUCCESS;
}
// Memory of the CPU that is not pinned is read before the call returns, as CUDA does.
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    NEEDS_CONTEXT;
    if (is_device(from) || is_in(pinned_memory(), from)) {
        fake_gpu::put_on(stream, [=, out = is_device(from) && !is_device(to)] {
            if (out)
                std::this_thread::sleep_for(
                    std::chrono::microseconds(fake_gpu::control().copy_out_us));
            std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
        });
        return CUDA_SUCCESS;
    }
    const auto* begin = reinterpret_cast<const std::byte*>(from);
    auto copy = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    fake_gpu::put_on(stream,
                     [=] { std::memcpy(reinterpret_cast<void*>(to), copy->data(), bytes); });
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    NEEDS_CONTEXT;
    fake_gpu::put_on(stream, [=] {
        if (!is_device(to)) {
            ++fake_gpu::control().wrong_uses;  // freed meanwhile
            return;
        }
        std::memset(reinterpret_cast<void*>(to), value, bytes);
    });
    return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned int) {
    NEEDS_CONTEXT;
    const std::size_t whole = (bytes + 4095) / 4096 * 4096;
    *pointer = std::aligned_alloc(4096, whole);
    const std::scoped_lock lock(memory_mutex());
    pinned_memory()[reinterpret_cast<std::uintptr_t>(*pointer)] = whole;
    return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* pointer) {
    NEEDS_CONTEXT;
    const std::scoped_lock lock(memory_mutex());
    if (pinned_memory().erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    std::free(pointer);
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr pointer) {
    NEEDS_CONTEXT;
    if (count != 1 || attributes[0] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        return CUDA_ERROR_INVALID_VALUE;
    *static_cast<unsigned int*>(data[0]) = is_device(pointer) ? CU_MEMORYTYPE_DEVICE : 0;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* loaded, const void* image) {
    NEEDS_CONTEXT;
    if (!captures.empty() && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        for (const CUstream stream : captures)
            stream->graph->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    *loaded = reinterpret_cast<CUmodule>(new std::string(image_of(image)));
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module_, const char* name) {
    const auto& text = *reinterpret_cast<const std::string*>(module_);
    std::uint32_t magic = 0;
    std::memcpy(&magic, text.data(), std::min(sizeof magic, text.size()));
    const std::string entry = magic == kFatbinMagic ? std::string(".text.") + name + '\0'
                                                    : std::string(".entry ") + name + "(";
    if (text.find(entry) == std::string::npos)
        return CUDA_ERROR_NOT_FOUND;
    *function = new CUfunc_st{name};  // a few bytes for each launch of a test
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned int blocks, unsigned int, unsigned int,
                        unsigned int threads, unsigned int, unsigned int, unsigned int,
                        CUstream stream, void** parameters, void**) {
    NEEDS_CONTEXT;
    if (auto launch = fake_gpu::launch_of(function->name, blocks, threads, parameters[0])) {
        fake_gpu::put_on(stream, std::move(launch));
        return CUDA_SUCCESS;
    }
    void* data = *static_cast<void**>(parameters[0]);
    const std::uint64_t count = *static_cast<std::uint64_t*>(parameters[1]);
    std::byte number[8];
    std::memcpy(number, parameters[2], sizeof number);
    fake_gpu::put_on(stream, [=, name = function->name] { run_kernel(name, data, count, number); });
    return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) {
    *name = "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
    *text = "a fake GPU's error";
    return CUDA_SUCCESS;
}

#pragma GCC visibility pop
}
