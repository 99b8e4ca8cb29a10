#pragma once
// CUDA's words for kernels, on the CPU, so that tests run the kernels' very source: include this
// before their headers.
//
// A block's threads are fibers that run one after the other, each up to the next barrier; blocks
// run one after the other. Nothing depends on time, and mistakes that a GPU forgives show: the
// order of threads and blocks is the test's choice (where a barrier is missing, another order gives
// other bits), shared memory starts as NaNs and ends where the launch said, and threads that wait
// at different barriers throw instead of hanging.
#include <ucontext.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace emulated {

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
    unsigned count() const { return x * y * z; }
};

/// In which order the threads of a block take turns, and blocks run.
enum class Turns { forward, backward, shuffled };

/// Runs one grid. One at a time in a process.
class Grid {
public:
    Grid(Dim3 blocks, Dim3 threads, std::size_t shared_bytes, Turns turns);
    Grid(const Grid&) = delete;
    Grid& operator=(const Grid&) = delete;
    ~Grid();
    /// Calls `kernel` once in each thread of each block. Throws std::runtime_error when threads
    /// wait for one another.
    void run(const std::function<void()>& kernel);

    // For the words below: of the thread that runs.
    static Grid& current();
    Dim3 thread() const;
    Dim3 block() const { return block_; }
    Dim3 threads() const { return threads_; }
    Dim3 blocks() const { return blocks_; }
    unsigned char* shared() { return shared_; }
    void wait_for_block();
    void wait_for_warp();
    /// Leaves `bytes` for the warp's other lanes and returns where all lanes' are, 32 bytes apart,
    /// until the next call.
    const unsigned char* exchange(const void* value, std::size_t bytes);

private:
    enum class State { ready, at_block, at_warp, done };
    struct Fiber;
    void run_block();
    void start_fibers();
    static void start(Fiber& fiber);
    bool run_ready_fibers();
    void release(State waiting, unsigned first, unsigned count);
    void yield(State state);
    static void enter();
    static std::vector<std::unique_ptr<Fiber>>& idle_fibers();
    static std::unique_ptr<Fiber> idle_fiber(unsigned index);

    Dim3 blocks_, threads_, block_;
    std::size_t shared_bytes_;
    Turns turns_;
    std::vector<unsigned char> shared_memory_;
    unsigned char* shared_;  ///< its end is that of shared_memory_
    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::vector<unsigned char>
        exchanged_;  ///< [warps][2][lanes][32]: two, so that one barrier an exchange is enough
    const std::function<void()>* kernel_ = nullptr;
    Fiber* running_ = nullptr;
    ucontext_t scheduler_;
    std::vector<unsigned> order_;  ///< of turns
    std::uint64_t draws_ = 0;
    void* tsan_scheduler_ = nullptr;
};

inline Grid& grid() { return Grid::current(); }

}  // namespace emulated

// CUDA's own headers define these for compilers that are not nvcc.
#undef __global__
#undef __launch_bounds__
#define __global__ inline
#define __launch_bounds__(threads)
#define threadIdx (emulated::grid().thread())
#define blockIdx (emulated::grid().block())
#define blockDim (emulated::grid().threads())
#define gridDim (emulated::grid().blocks())

inline void __syncthreads() { emulated::grid().wait_for_block(); }
inline void __syncwarp() { emulated::grid().wait_for_warp(); }
template <class V>
V __shfl_xor_sync(unsigned, V value, int distance) {
    const unsigned lane =
        (emulated::grid().thread().x + emulated::grid().threads().x * emulated::grid().thread().y) %
        32;
    const auto* all = emulated::grid().exchange(&value, sizeof value);
    std::memcpy(&value, all + 32 * (lane ^ static_cast<unsigned>(distance)), sizeof value);
    return value;
}
inline std::uint32_t __ballot_sync(unsigned, bool vote) {
    const auto* all = emulated::grid().exchange(&vote, sizeof vote);
    std::uint32_t votes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        votes |= static_cast<std::uint32_t>(all[32 * lane] != 0) << lane;
    return votes;
}
inline int __ffs(int value) { return __builtin_ffs(value); }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }

namespace gpt {

inline float exponential_of(float x) { return std::exp(x); }
inline unsigned char* shared_memory() { return emulated::grid().shared(); }
/// As mma.sync.m16n8k16: each lane's registers come from where the PTX manual says.
void multiply_tile_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

}  // namespace gpt
