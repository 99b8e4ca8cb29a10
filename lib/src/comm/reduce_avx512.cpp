// The kernels for CPUs with AVX-512 (F, BW, DQ, VL).
#include "comm/reduce_kernels.hpp"
#include "comm/reduce_types.hpp"

#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>

#define AUTOLAUNCH_KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace autolaunch {
namespace {

constexpr std::size_t kVectorBytes = 64;
typedef float Floats __attribute__((vector_size(64)));

AUTOLAUNCH_KERNEL inline Floats load_f16(const float16* from) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
AUTOLAUNCH_KERNEL inline __m256i store_f16(Floats values) {
    return _mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
template <class V>
AUTOLAUNCH_KERNEL inline void stream_part(void* to, V values) {
    if constexpr (sizeof(V) == 64) {
        _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)values);
    } else {
        _mm256_stream_si256(static_cast<__m256i*>(to), (__m256i)values);
    }
}

#include "comm/reduce_vectors.hpp"

constexpr ReduceKernelSet kAvx512 = AUTOLAUNCH_REDUCE_KERNEL_SET("AVX-512", reduce_vectors);

}  // namespace

const ReduceKernelSet* avx512_reduce_kernels() noexcept {
    const bool supported = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return supported ? &kAvx512 : nullptr;
}

}  // namespace autolaunch
#else
namespace autolaunch {
const ReduceKernelSet* avx512_reduce_kernels() noexcept { return nullptr; }
}  // namespace autolaunch
#endif
