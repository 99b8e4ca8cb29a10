// Compiled with -O3 -ffp-contract=off -fno-math-errno (CMakeLists.txt): vectorised, and equal to the bit on every CPU.
#include "fsdp/adamw_kernel.hpp"

#include <cmath>

#if defined(__x86_64__)
#define AUTOLAUNCH_X86 1
// Dispatch by hand instead of target_clones: its ifunc resolvers run before the sanitizers' runtime is up.
#define AUTOLAUNCH_TARGET(set) __attribute__((target(set)))
#else
#define AUTOLAUNCH_X86 0
#endif

namespace autolaunch::fsdp {

AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps, double weight_decay, std::int64_t step,
                           double gradient_scale) {
    const auto t = static_cast<double>(step);
    AdamWFactors factors;
    factors.gradient_scale = static_cast<float>(gradient_scale);
    factors.decay = static_cast<float>(1.0 - lr * weight_decay);
    factors.beta1 = static_cast<float>(beta1);
    factors.one_minus_beta1 = static_cast<float>(1.0 - beta1);
    factors.beta2 = static_cast<float>(beta2);
    factors.one_minus_beta2 = static_cast<float>(1.0 - beta2);
    factors.root_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
    factors.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
    factors.eps = static_cast<float>(eps);
    return factors;
}

namespace {

[[gnu::always_inline]] inline void update_loop(const AdamWFactors& factors, const float* __restrict gradient,
                                               float* __restrict parameter, float* __restrict exp_avg,
                                               float* __restrict exp_avg_sq, std::size_t count) {
    const AdamWFactors f = factors;
    for (std::size_t i = 0; i < count; ++i) {
        const float g = gradient[i] * f.gradient_scale;
        const float m = exp_avg[i] * f.beta1 + g * f.one_minus_beta1;
        const float v = exp_avg_sq[i] * f.beta2 + f.one_minus_beta2 * g * g;
        const float denominator = std::sqrt(v) / f.root_correction2 + f.eps;
        parameter[i] = parameter[i] * f.decay - f.step_size * m / denominator;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
    }
}

void update_baseline(const AdamWFactors& f, const float* g, float* p, float* m, float* v, std::size_t count) {
    update_loop(f, g, p, m, v, count);
}

#if AUTOLAUNCH_X86
AUTOLAUNCH_TARGET("avx2")
void update_avx2(const AdamWFactors& f, const float* g, float* p, float* m, float* v, std::size_t count) {
    update_loop(f, g, p, m, v, count);
}

AUTOLAUNCH_TARGET("avx512f")
void update_avx512(const AdamWFactors& f, const float* g, float* p, float* m, float* v, std::size_t count) {
    update_loop(f, g, p, m, v, count);
}
#endif

InstructionSet best_instruction_set() noexcept {
    if (cpu_has(InstructionSet::avx512)) return InstructionSet::avx512;
    return cpu_has(InstructionSet::avx2) ? InstructionSet::avx2 : InstructionSet::baseline;
}

}  // namespace

bool cpu_has(InstructionSet set) noexcept {
#if AUTOLAUNCH_X86
    if (set == InstructionSet::avx512) return __builtin_cpu_supports("avx512f") != 0;
    if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") != 0;
#endif
    return set == InstructionSet::baseline;
}

void adamw_update_with(InstructionSet set, const AdamWFactors& factors, const float* gradient, float* parameter,
                       float* exp_avg, float* exp_avg_sq, std::size_t count) {
#if AUTOLAUNCH_X86
    if (set == InstructionSet::avx512) return update_avx512(factors, gradient, parameter, exp_avg, exp_avg_sq, count);
    if (set == InstructionSet::avx2) return update_avx2(factors, gradient, parameter, exp_avg, exp_avg_sq, count);
#endif
    (void)set;
    update_baseline(factors, gradient, parameter, exp_avg, exp_avg_sq, count);
}

void adamw_update(const AdamWFactors& factors, const float* gradient, float* parameter, float* exp_avg,
                  float* exp_avg_sq, std::size_t count) {
    static const InstructionSet set = best_instruction_set();
    adamw_update_with(set, factors, gradient, parameter, exp_avg, exp_avg_sq, count);
}

double sum_of_squares(const float* values, std::size_t count) {
    constexpr std::size_t kLanes = 16;  // independent sums, so that the loop vectorises without reassociation
    double sums[kLanes] = {};
    const std::size_t whole = count / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const double value = values[i + lane];
            sums[lane] += value * value;
        }
    }
    for (std::size_t i = whole; i < count; ++i) sums[i - whole] += static_cast<double>(values[i]) * values[i];
    double total = 0;
    for (const double sum : sums) total += sum;
    return total;
}

void add_to(float* __restrict to, const float* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace autolaunch::fsdp
