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

AUTOLAUNCH_KERNEL inline Floats root_of(Floats values) { return (Floats)_mm256_sqrt_ps((__m256)values); }
AUTOLAUNCH_KERNEL inline Floats load_f16(const float16* from) {
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
AUTOLAUNCH_KERNEL inline __m128i store_f16(Floats values) {
    return _mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#include "fsdp/optimizer/kernel_loops.hpp"

constexpr OptimizerKernels kAvx2 = AUTOLAUNCH_OPTIMIZER_KERNELS("AVX2");

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
