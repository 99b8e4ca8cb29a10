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

AUTOLAUNCH_KERNEL inline Floats root_of(Floats values) { return (Floats)_mm512_sqrt_ps((__m512)values); }
AUTOLAUNCH_KERNEL inline Floats load_f16(const float16* from) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
AUTOLAUNCH_KERNEL inline __m256i store_f16(Floats values) {
    return _mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#include "fsdp/optimizer/kernel_loops.hpp"

constexpr OptimizerKernels kAvx512 = AUTOLAUNCH_OPTIMIZER_KERNELS("AVX-512");

}  // namespace

const OptimizerKernels* avx512_optimizer_kernels() noexcept {
    const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return supported ? &kAvx512 : nullptr;
}

}  // namespace autolaunch::fsdp
#else
namespace autolaunch::fsdp {
const OptimizerKernels* avx512_optimizer_kernels() noexcept { return nullptr; }
}  // namespace autolaunch::fsdp
#endif
