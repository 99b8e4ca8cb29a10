// The kernels of GPUs, by name: cuda_kernels.cpp looks them up. Compiled with -fmad=false,
// -ftz=false, and divisions and roots rounded correctly (CMakeLists.txt), so that every element
// gets the bits that CPUs give it.
#include "fsdp/cuda/kernel_arguments.hpp"

#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#define AUTOLAUNCH_INLINE __device__ __forceinline__

namespace autolaunch::fsdp {
namespace {

struct Packet;

AUTOLAUNCH_INLINE float square_root(float value) { return __fsqrt_rn(value); }
AUTOLAUNCH_INLINE float half_to_float(std::uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}
AUTOLAUNCH_INLINE std::uint16_t float_to_half(float value) {
    return __half_as_ushort(__float2half_rn(value));
}
template <class P>
AUTOLAUNCH_INLINE P stream_in(const P* from) {
    const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));
    return {{words.x, words.y, words.z, words.w}};
}
AUTOLAUNCH_INLINE void lower(std::uint64_t* to, std::uint64_t value) {
    atomicMin(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

#include "fsdp/cuda/kernel_bodies.hpp"

AUTOLAUNCH_INLINE GridPlace here() { return {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x}; }

constexpr unsigned kQuads = kKernelThreads / kQuad;

/// Each quad of threads has a column of words of its own, so nothing is added atomically until the
/// end.
template <class Gradient>
AUTOLAUNCH_INLINE void sum_squares(const SquaresArguments& arguments) {
    __shared__ std::int64_t columns[kExactWords][kQuads];
    for (unsigned i = threadIdx.x; i < kExactWords * kQuads; i += blockDim.x)
        columns[i / kQuads][i % kQuads] = 0;
    __syncthreads();
    const unsigned quad = threadIdx.x / kQuad, quarter = threadIdx.x % kQuad;
    const unsigned members = 0xfu << (threadIdx.x % 32 / kQuad * kQuad);
    for (std::uint64_t c = blockIdx.x; c < arguments.chunk_count; c += gridDim.x) {
        const UpdateChunk chunk = arguments.chunks[c];
        const UpdateShard shard = arguments.shards[chunk.shard];
        if (shard.has_gradient == 0)
            continue;
        for (unsigned done = quad * kSumBlock; done < chunk.count; done += kQuads * kSumBlock) {
            double lanes[4];
            sum_lanes<Gradient>(shard.gradient, chunk.shard_offset + done, chunk.count - done,
                                quarter, lanes);
            for (int k = 0; k < 4; ++k)
                lanes[k] += __shfl_down_sync(members, lanes[k], 2, kQuad);
            for (int k = 0; k < 4; ++k)
                lanes[k] += __shfl_down_sync(members, lanes[k], 1, kQuad);
            if (quarter != 0)
                continue;
            add_exactly(fold_four(lanes),
                        [&](int word, std::int64_t amount) { columns[word][quad] += amount; });
        }
    }
    __syncthreads();
    if (threadIdx.x >= kExactWords)
        return;
    std::int64_t sum = 0;
    for (unsigned i = 0; i < kQuads; ++i)
        sum += columns[threadIdx.x][(i + threadIdx.x) % kQuads];
    if (sum != 0)
        atomicAdd(reinterpret_cast<unsigned long long*>(arguments.words + threadIdx.x),
                  static_cast<unsigned long long>(sum));
}

}  // namespace

#define AUTOLAUNCH_UPDATE(algorithm, name, G, g, M, m, P, p)     \
    extern "C" __global__ void __launch_bounds__(kKernelThreads) \
        update_##name##_##g##_##m##_##p(UpdateArguments a) {     \
        update_chunks<algorithm, G, M, P>(here(), a);            \
    }
#define AUTOLAUNCH_UPDATES(algorithm, name) \
    AUTOLAUNCH_UPDATE_TYPES(AUTOLAUNCH_UPDATE, algorithm, name)
AUTOLAUNCH_ALGORITHMS(AUTOLAUNCH_UPDATES)

#define AUTOLAUNCH_SQUARES(G, g)                                                                   \
    extern "C" __global__ void __launch_bounds__(kKernelThreads) squares_##g(SquaresArguments a) { \
        sum_squares<G>(a);                                                                         \
    }
AUTOLAUNCH_TYPES(AUTOLAUNCH_SQUARES)

#define AUTOLAUNCH_FIND(T, t)                                    \
    extern "C" __global__ void __launch_bounds__(kKernelThreads) \
        find_nonfinite_##t(FindArguments a) {                    \
        find_nonfinite<T>(here(), a);                            \
    }
AUTOLAUNCH_TYPES(AUTOLAUNCH_FIND)

#define AUTOLAUNCH_CASTS(To, to, From, from)                     \
    extern "C" __global__ void __launch_bounds__(kKernelThreads) \
        cast_##to##_##from(CastArguments a) {                    \
        cast_all<To, From, false>(here(), a);                    \
    }                                                            \
    extern "C" __global__ void __launch_bounds__(kKernelThreads) \
        accumulate_##to##_##from(CastArguments a) {              \
        cast_all<To, From, true>(here(), a);                     \
    }
AUTOLAUNCH_TYPE_PAIRS(AUTOLAUNCH_CASTS)

extern "C" __global__ void __launch_bounds__(kKernelThreads) sum_in_order(SumArguments a) {
    add_parts(here(), a);
}
extern "C" __global__ void carry_squares(CarryArguments a) {
    if (threadIdx.x == 0)
        carry_words(a);
}
extern "C" __global__ void step_scale(ScaleArguments a) {
    if (threadIdx.x == 0)
        set_scale(a);
}

}  // namespace autolaunch::fsdp
