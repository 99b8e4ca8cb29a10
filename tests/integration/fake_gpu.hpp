#pragma once
// A CUDA driver and an NCCL without a GPU, in one shared object, for tests of backend nccl: the
// CPU's memory is the GPU's and a stream is a thread. fake_cuda.cpp and fake_nccl.cpp define the
// functions that the backend looks up, with the signatures of CUDA's and NCCL's own headers.
// fake_gpu.so says it is NCCL 2.28.9, fake_gpu_218.so is 2.18.5 and has nothing newer.
//
// They are stricter than the real ones where that finds mistakes: every call needs a current
// context, and what a non-blocking communicator was given is on its stream only when
// ncclCommGetAsyncError has said ncclSuccess.
#include <atomic>
#include <functional>
#include <string>

struct CUstream_st;

/// What a test makes go wrong, and what it counts. Of one process.
struct FakeGpuControl {
    std::atomic<int> busy_polls{2};     ///< how often a call is ncclInProgress
    std::atomic<int> jitter_us{0};      ///< work on a stream begins up to so much later, at random
    std::atomic<int> init_delay_ms{0};  ///< an initialisation takes so long
    std::atomic<int> async_error{0};    ///< what ncclCommGetAsyncError says from now on
    std::atomic<bool> hang{false};      ///< collectives do not end
    std::atomic<bool> hang_in_call{false};  ///< nor does the next call return
    std::atomic<bool> revoke_fails{false};
    std::atomic<bool> hang_in_end{false};  ///< revoking and aborting take a minute
    std::atomic<bool> driver_has_ended{false};  ///< no context can be made current any more
    std::atomic<int> communicators{0};
    std::atomic<int> registrations{0};
    std::atomic<int> allocations{0};
    std::atomic<int> contexts{0};
    std::atomic<int> initialised_with_ids{0};  ///< of the last communicator
    std::atomic<int> aborts{0};
    std::atomic<int> revokes{0};
    std::atomic<int> wrong_uses{0};   ///< what NCCL's documentation forbids; work on freed memory
    std::atomic<int> copy_out_us{0};  ///< a copy to the CPU's memory takes so much longer
};

extern "C" __attribute__((visibility("default"))) FakeGpuControl* fake_gpu_control();
/// A test's kernel: work(data) runs after all that is on the stream.
extern "C" __attribute__((visibility("default"))) void fake_gpu_launch(CUstream_st* stream,
                                                                       void (*work)(void*),
                                                                       void* data);

namespace fake_gpu {

FakeGpuControl& control();
/// Runs after all that is on the stream; null is the default stream. On a stream that makes a
/// graph, once with each of the graph's launches.
void put_on(CUstream_st* stream, std::function<void()> work);
/// The same for work that is another one each time: `make` makes it when it is put on the stream.
void put_made_on(CUstream_st* stream, std::function<std::function<void()>()> make);
bool has_context();
/// One launch of a kernel of lib/src/fsdp/cuda, all of its threads one after the other; nothing
/// when there is none of that name. `parameter` is copied.
std::function<void()> launch_of(const std::string& kernel, unsigned blocks, unsigned threads,
                                const void* parameter);
void* allocate(std::size_t bytes);
void release(void* memory);

}  // namespace fake_gpu
