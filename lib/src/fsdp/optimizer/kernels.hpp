#pragma once
// The element loops behind the optimizers: one set for each kind of CPU. All sets give the same bits, whatever the cut:
// every operation is done on one element alone, and none is fused with the next.
#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace autolaunch::fsdp {

/// Elements in f32. The arrays must not overlap; an optimizer without a state leaves its pointer null.
struct ElementRange {
    const float* gradient = nullptr;
    float* master = nullptr;
    float* first_state = nullptr;
    float* second_state = nullptr;
    std::size_t count = 0;
};

/// The numbers one AdamW step needs, worked out in double and then rounded once, as torch does.
struct AdamWFactors {
    float gradient_scale = 1;  ///< 1 / (N · micro_batches · loss scale), times the clip factor
    float decay = 1;           ///< 1 - lr · weight_decay
    float beta1 = 0, one_minus_beta1 = 0;
    float beta2 = 0, one_minus_beta2 = 0;
    float root_correction2 = 1;  ///< sqrt(1 - beta2^t)
    float step_size = 0;         ///< lr / (1 - beta1^t)
    float eps = 0;
};

struct SGDFactors {
    float gradient_scale = 1;
    float weight_decay = 0;
    float momentum = 0, one_minus_dampening = 1;  ///< buffer = momentum · buffer + (1 - dampening) · d
    float direct = 0, through_buffer = 1;         ///< p -= lr · (direct · d + through_buffer · buffer)
    float lr = 0;
};

struct LionFactors {
    float gradient_scale = 1;
    float decay = 1;  ///< 1 - lr · weight_decay
    float beta1 = 0, one_minus_beta1 = 0;
    float beta2 = 0, one_minus_beta2 = 0;
    float lr = 0;
};

/// What the random bits of one parameter's rounding in one step are made from: element i gets the same bits on every
/// rank and for every cut.
struct RoundingKey {
    std::uint32_t low = 0, high = 0;
};

/// Squares are summed in blocks of so many elements of a parameter, in f64 and one fixed order.
constexpr std::size_t kSumBlock = 64;

struct OptimizerKernels {
    std::string_view name;
    void (*adamw)(const AdamWFactors& factors, const ElementRange& range);
    void (*sgd)(const SGDFactors& factors, const ElementRange& range);           ///< without a buffer
    void (*sgd_momentum)(const SGDFactors& factors, const ElementRange& range);  ///< first_state: the buffer
    void (*lion)(const LionFactors& factors, const ElementRange& range);         ///< first_state: the momentum

    void (*widen_bf16)(const bfloat16* from, float* to, std::size_t count);
    void (*widen_f16)(const float16* from, float* to, std::size_t count);
    void (*narrow_bf16)(const float* from, bfloat16* to, std::size_t count);
    void (*narrow_f16)(const float* from, float16* to, std::size_t count);
    /// To one of the two neighbours, to the nearer one more often, so that the mean is the value. `first` is the index
    /// of from[0] in its parameter. Infinities and NaN stay.
    void (*round_bf16)(RoundingKey key, std::uint64_t first, const float* from, bfloat16* to, std::size_t count);

    /// sums[b] = the sum of squares of from[b * kSumBlock …]. `count` may leave the last block short.
    void (*block_sums)(const float* from, double* sums, std::size_t count);
};

const OptimizerKernels& plain_optimizer_kernels() noexcept;
/// Null where the compiler or this CPU does not know the instructions.
const OptimizerKernels* avx2_optimizer_kernels() noexcept;
const OptimizerKernels* avx512_optimizer_kernels() noexcept;

/// All that this CPU can run, the best first.
AUTOLAUNCH_API std::span<const OptimizerKernels* const> optimizer_kernel_sets();
/// The best that this CPU can run.
const OptimizerKernels& optimizer_kernels();

}  // namespace autolaunch::fsdp
