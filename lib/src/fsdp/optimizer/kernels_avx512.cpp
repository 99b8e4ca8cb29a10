// The kernels for CPUs with AVX-512 (F, BW, DQ, VL).
#include "fsdp/optimizer/kernels.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>

#define AUTOLAUNCH_KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace autolaunch::fsdp {
namespace {

typedef float Floats __attribute__((vector_size(64)));
typedef std::uint32_t Words __attribute__((vector_size(64)));

AUTOLAUNCH_KERNEL inline Floats root_of(Floats values) {
    return (Floats)_mm512_sqrt_ps((__m512)values);
}
AUTOLAUNCH_KERNEL inline Floats load_f16(const float16* from) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
AUTOLAUNCH_KERNEL inline __m256i store_f16(Floats values) {
    return _mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AUTOLAUNCH_KERNEL inline Floats load_bf16(const bfloat16* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}
AUTOLAUNCH_KERNEL inline void store_upper_halves(Words first, Words second, bfloat16* to) {
    constexpr std::uint32_t kSecond = 32;  // places in the second register
    Words places;
    for (std::uint32_t i = 0; i < 16; ++i) {
        const std::uint32_t place = i < 8 ? 4 * i + 1 : kSecond + 4 * (i - 8) + 1;
        places[i] = place | (place + 2) << 16;
    }
    _mm512_storeu_si512(
        to, _mm512_permutex2var_epi16((__m512i)first, (__m512i)places, (__m512i)second));
}

#include "fsdp/optimizer/kernel_loops.hpp"

constexpr OptimizerKernels kAvx512 = kernels_named("AVX-512");

}  // namespace

const OptimizerKernels* avx512_optimizer_kernels() noexcept {
    const bool supported = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return supported ? &kAvx512 : nullptr;
}

}  // namespace autolaunch::fsdp
#else
namespace autolaunch::fsdp {
const OptimizerKernels* avx512_optimizer_kernels() noexcept { return nullptr; }
}  // namespace autolaunch::fsdp
#endif
