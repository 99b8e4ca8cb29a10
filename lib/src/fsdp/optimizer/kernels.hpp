#pragma once
// The element loops behind the optimizers: one set for each kind of CPU. All sets give the same bits, whatever the cut:
// every operation is done on one element alone, and none is fused with the next.
#include "fsdp/optimizer/factors.hpp"

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
