// The kernels for CPUs with AVX2 and F16C.
#include "fsdp/optimizer/kernels.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define AUTOLAUNCH_KERNEL __attribute__((target("avx2,f16c")))

namespace autolaunch::fsdp {
namespace {

typedef float Floats __attribute__((vector_size(32)));
typedef std::uint32_t Words __attribute__((vector_size(32)));

AUTOLAUNCH_KERNEL inline Floats root_of(Floats values) {
    return (Floats)_mm256_sqrt_ps((__m256)values);
}
AUTOLAUNCH_KERNEL inline Floats load_f16(const float16* from) {
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
AUTOLAUNCH_KERNEL inline __m128i store_f16(Floats values) {
    return _mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AUTOLAUNCH_KERNEL inline Floats load_bf16(const bfloat16* from) {
    constexpr char kZero = -1;  // bytes of zero below each number's two
    const __m256i places = _mm256_setr_epi8(
        kZero, kZero, 0, 1, kZero, kZero, 2, 3, kZero, kZero, 4, 5, kZero, kZero, 6, 7,  //
        kZero, kZero, 8, 9, kZero, kZero, 10, 11, kZero, kZero, 12, 13, kZero, kZero, 14, 15);
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return (Floats)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(halves), places);
}
AUTOLAUNCH_KERNEL inline void store_upper_halves(Words first, Words second, bfloat16* to) {
    const __m256i packed = _mm256_packus_epi32((__m256i)(first >> 16), (__m256i)(second >> 16));
    constexpr int kInOrder = 0b11'01'10'00;  // packing works in lanes of 16 bytes
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, kInOrder));
}

#include "fsdp/optimizer/kernel_loops.hpp"

constexpr OptimizerKernels kAvx2 = kernels_named("AVX2");

}  // namespace

const OptimizerKernels* avx2_optimizer_kernels() noexcept {
    // clang 14's __builtin_cpu_supports() knows AVX2 but not F16C.
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    return has_f16c && __builtin_cpu_supports("avx2") ? &kAvx2 : nullptr;
}

}  // namespace autolaunch::fsdp
#else
namespace autolaunch::fsdp {
const OptimizerKernels* avx2_optimizer_kernels() noexcept { return nullptr; }
}  // namespace autolaunch::fsdp
#endif
