#pragma once
// The little that kernels need beyond C++, so that their source compiles with nvcc and, in unit
// tests, with any C++ compiler: there tests/unit/emulated_gpu.hpp, included before, stands for
// CUDA's words (__global__, threadIdx,
// __syncthreads, …) and runs the threads of a block one after the other from barrier to barrier.
#include <autolaunch/comm/types.hpp>

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define GPT_DEVICE __device__ __forceinline__
#define GPT_UNROLL _Pragma("unroll")
#else
#define GPT_DEVICE inline
#define GPT_UNROLL
#endif

namespace gpt {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

GPT_DEVICE float to_float(float value) { return value; }
template <class T>
GPT_DEVICE T from_float(float value);
template <>
GPT_DEVICE float from_float<float>(float value) {
    return value;
}

#if defined(__CUDACC__)

GPT_DEVICE float to_float(autolaunch::bfloat16 value) {
    return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
GPT_DEVICE float to_float(autolaunch::float16 value) {
    return __half2float(__ushort_as_half(value.bits));
}
template <>
GPT_DEVICE autolaunch::bfloat16 from_float<autolaunch::bfloat16>(float value) {
    autolaunch::bfloat16 narrow;
    narrow.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    return narrow;
}
template <>
GPT_DEVICE autolaunch::float16 from_float<autolaunch::float16>(float value) {
    autolaunch::float16 narrow;
    narrow.bits = __half_as_ushort(__float2half_rn(value));
    return narrow;
}
/// exp(x), to about 2 units in the last place.
GPT_DEVICE float exponential_of(float x) { return __expf(x); }

/// The block's shared memory, as many bytes as the launch gave it, aligned to 16.
GPT_DEVICE unsigned char* shared_memory() {
    extern __shared__ __align__(16) unsigned char gpt_shared_memory[];
    return gpt_shared_memory;
}

/// c += a b for a tile of 16 x 8, 16 deep, bf16 with sums in f32, by the warp's 32 lanes together.
/// With group = lane / 4 and pair = lane % 4 * 2, a lane holds c(group, pair), c(group, pair + 1),
/// c(group + 8, pair), c(group + 8, pair + 1); of a, two neighbours in k a register: rows group,
/// group + 8, group, group + 8 at k = pair, pair, pair + 8, pair
/// + 8; of b, the column `group` at k = pair and pair + 8. (PTX ISA, "Matrix Fragments for
/// mma.m16n8k16".)
GPT_DEVICE void multiply_tile_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

GPT_DEVICE float to_float(autolaunch::bfloat16 value) { return static_cast<float>(value); }
GPT_DEVICE float to_float(autolaunch::float16 value) { return static_cast<float>(value); }
template <>
GPT_DEVICE autolaunch::bfloat16 from_float<autolaunch::bfloat16>(float value) {
    return autolaunch::bfloat16(value);
}
template <>
GPT_DEVICE autolaunch::float16 from_float<autolaunch::float16>(float value) {
    return autolaunch::float16(value);
}

#endif

/// Neighbours that are read and written together: 16 bytes, or one element where rows do not begin
/// at multiples of 16.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Chunk {
    T values[kCount];
};
template <class T>
inline constexpr int kWideCount = 16 / static_cast<int>(sizeof(T));

template <int kCount, class T>
GPT_DEVICE Chunk<T, kCount> load_chunk(const T* from) {
    return *reinterpret_cast<const Chunk<T, kCount>*>(from);
}
template <int kCount, class T>
GPT_DEVICE void store_chunk(T* to, const Chunk<T, kCount>& chunk) {
    *reinterpret_cast<Chunk<T, kCount>*>(to) = chunk;
}

/// Sum over the warp, the same in all lanes.
GPT_DEVICE float warp_sum(float value) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    return value;
}

}  // namespace gpt
