// The kernels for CPUs with AVX2 and F16C.
#include "comm/reduce_kernels.hpp"
#include "comm/reduce_types.hpp"

#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define AUTOLAUNCH_KERNEL __attribute__((target("avx2,f16c")))

namespace autolaunch {
namespace {

constexpr std::size_t kVectorBytes = 32;
typedef float Floats __attribute__((vector_size(32)));

AUTOLAUNCH_KERNEL inline Floats load_f16(const float16* from) {
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
AUTOLAUNCH_KERNEL inline __m128i store_f16(Floats values) {
    return _mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
template <class V>
AUTOLAUNCH_KERNEL inline void stream_part(void* to, V values) {
    if constexpr (sizeof(V) == 32) {
        _mm256_stream_si256(static_cast<__m256i*>(to), (__m256i)values);
    } else {
        _mm_stream_si128(static_cast<__m128i*>(to), (__m128i)values);
    }
}

#include "comm/reduce_vectors.hpp"

constexpr ReduceKernelSet kAvx2 = AUTOLAUNCH_REDUCE_KERNEL_SET("AVX2", reduce_vectors);

}  // namespace

const ReduceKernelSet* avx2_reduce_kernels() noexcept {
    // clang 14's __builtin_cpu_supports() knows AVX2 but not F16C.
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    return has_f16c && __builtin_cpu_supports("avx2") ? &kAvx2 : nullptr;
}

}  // namespace autolaunch
#else
namespace autolaunch {
const ReduceKernelSet* avx2_reduce_kernels() noexcept { return nullptr; }
}  // namespace autolaunch
#endif
