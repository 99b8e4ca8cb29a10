#pragma once
#include <cstddef>
#include <cstdint>

namespace autolaunch::fsdp {

/// The numbers one AdamW step needs, worked out in double and then rounded once, as torch does.
struct AdamWFactors {
    float gradient_scale = 1;  ///< 1 / (N · micro_batches), times the clip factor
    float decay = 1;           ///< 1 - lr · weight_decay
    float beta1 = 0, one_minus_beta1 = 0;
    float beta2 = 0, one_minus_beta2 = 0;
    float root_correction2 = 1;  ///< sqrt(1 - beta2^t)
    float step_size = 0;         ///< lr / (1 - beta1^t)
    float eps = 0;
};

AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps, double weight_decay, std::int64_t step,
                           double gradient_scale);

/// p, m, v of `count` elements from g, in one pass over memory (28 bytes an element). The arrays must not overlap.
/// Elementwise and without fused multiply-add, so the result is the same to the bit on every CPU and for every cut.
void adamw_update(const AdamWFactors& factors, const float* gradient, float* parameter, float* exp_avg,
                  float* exp_avg_sq, std::size_t count);

/// Sum of squares in double. The order of additions depends on the element's index alone, not on the CPU.
double sum_of_squares(const float* values, std::size_t count);

/// to[i] += from[i].
void add_to(float* to, const float* from, std::size_t count);

/// The instruction sets these functions are compiled for; the best that this CPU has is used.
enum class InstructionSet { baseline, avx2, avx512 };
bool cpu_has(InstructionSet set) noexcept;
/// As adamw_update, on a given instruction set; for tests. The CPU must have it.
void adamw_update_with(InstructionSet set, const AdamWFactors& factors, const float* gradient, float* parameter,
                       float* exp_avg, float* exp_avg_sq, std::size_t count);

}  // namespace autolaunch::fsdp
