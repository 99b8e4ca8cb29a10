#include "fma_peak.hpp"

#include <algorithm>
#include <chrono>

namespace autolaunch::bench {
namespace {

constexpr int kSums = 12;  // independent, more than latency times units
constexpr int kSteps = 1 << 18;
constexpr int kRuns = 16;

volatile float factor_of_all = 0.999f;  // unknown to the compiler
volatile float term_of_all = 0.001f;

// Not a template: vectors are cut into what a function's target has before anything is inlined into
// it.
#define AUTOLAUNCH_FMA_LOOP(bytes)                                         \
    using Vector __attribute__((vector_size(bytes))) = float;              \
    const Vector factor = Vector{} + factor_of_all;                        \
    const Vector term = Vector{} + term_of_all;                            \
    Vector sums[kSums];                                                    \
    for (Vector & sum : sums)                                              \
        sum = Vector{} + term_of_all;                                      \
    for (int step = 0; step < steps; ++step) {                             \
        _Pragma("GCC unroll 12") for (int i = 0; i < kSums; ++i) sums[i] = \
            sums[i] * factor + term;                                       \
    }                                                                      \
    Vector total = {};                                                     \
    for (const Vector& sum : sums)                                         \
        total += sum;                                                      \
    return total[0];

[[gnu::noinline]] float run_plain(int steps) { AUTOLAUNCH_FMA_LOOP(16) }
#if defined(__x86_64__)
[[gnu::noinline, gnu::target("avx2,fma")]] float run_avx2(int steps) { AUTOLAUNCH_FMA_LOOP(32) }
[[gnu::noinline, gnu::target("avx512f,fma")]] float run_avx512(int steps) {
    AUTOLAUNCH_FMA_LOOP(64)
}
#endif
#undef AUTOLAUNCH_FMA_LOOP

struct Runner {
    float (*run)(int steps);
    int lanes;
};

Runner widest() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return {run_avx512, 16};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return {run_avx2, 8};
#endif
    return {run_plain, 4};
}

}  // namespace

double fma_peak() {
    const Runner runner = widest();
    volatile float result = 0;
    double best = 0;
    for (int i = 0; i < kRuns; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        result = runner.run(kSteps);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = std::max(best, 2.0 * kSums * kSteps * runner.lanes / seconds);
    }
    (void)result;
    return best;
}

}  // namespace autolaunch::bench
