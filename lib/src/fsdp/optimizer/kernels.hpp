#pragma once
// The element loops behind the optimizers: one set for each kind of CPU. All sets give the same
// bits, whatever the cut: every operation is done on one element alone, and none is fused with the
// next.
#include "fsdp/optimizer/factors.hpp"

#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace autolaunch::fsdp {

/// Elements of one parameter and how they are stored. The arrays must not overlap; an optimizer
/// without a state leaves its pointer null.
struct ElementRange {
    const void* gradient = nullptr;
    void* master = nullptr;  ///< in f32; or in bf16, rounded at random
    float* first_state = nullptr;
    float* second_state = nullptr;
    std::size_t count = 0;
    DataType gradient_type = DataType::f32;
    DataType master_type = DataType::f32;
    void* param = nullptr;  ///< a copy of the master that is written, too; null where ranks gather
                            ///< the master itself
    DataType param_type = DataType::f32;
    RoundingKey key{};        ///< of masters in bf16
    std::uint64_t index = 0;  ///< the first element's in its parameter
};

/// Whether there is a loop for gradients, masters and copies of these types.
constexpr bool can_update(DataType gradient, DataType master, std::optional<DataType> param) {
    const auto is_float = [](DataType type) {
        return type == DataType::f32 || type == DataType::bf16 || type == DataType::f16;
    };
    if (!is_float(gradient))
        return false;
    if (master == DataType::bf16)
        return !param || *param == DataType::bf16;
    return master == DataType::f32 && (!param || is_float(*param));
}

/// The update of one optimizer: a loop for each way of storing elements, in which each is read,
/// widened, updated, rounded and written once.
template <class Factors>
struct UpdateLoops {
    using Loop = void (*)(const Factors& factors, const ElementRange& range);
    struct OfGradient {
        Loop f32, f32_to_f32, f32_to_bf16, f32_to_f16, bf16,
            bf16_to_bf16;  ///< masters, and the copies' types
    };
    OfGradient f32, bf16, f16;

    /// can_update() must hold for the range's types.
    void operator()(const Factors& factors, const ElementRange& range) const {
        const auto of_type = [](DataType type, const auto& in_f32, const auto& in_bf16,
                                const auto& in_f16) {
            return type == DataType::f32 ? in_f32 : type == DataType::bf16 ? in_bf16 : in_f16;
        };
        const OfGradient& loops = of_type(range.gradient_type, f32, bf16, f16);
        const bool rounds = range.master_type == DataType::bf16;
        const Loop alone = rounds ? loops.bf16 : loops.f32;
        const Loop copying = rounds ? loops.bf16_to_bf16
                                    : of_type(range.param_type, loops.f32_to_f32, loops.f32_to_bf16,
                                              loops.f32_to_f16);
        (range.param != nullptr ? copying : alone)(factors, range);
    }
};

struct OptimizerKernels {
    std::string_view name;
    UpdateLoops<AdamWFactors> adamw;
    UpdateLoops<SGDFactors> sgd;           ///< without a buffer
    UpdateLoops<SGDFactors> sgd_momentum;  ///< first_state: the buffer
    UpdateLoops<LionFactors> lion;         ///< first_state: the momentum

    void (*widen_bf16)(const bfloat16* from, float* to, std::size_t count);
    void (*widen_f16)(const float16* from, float* to, std::size_t count);
    void (*narrow_bf16)(const float* from, bfloat16* to, std::size_t count);
    void (*narrow_f16)(const float* from, float16* to, std::size_t count);

    /// sums[b] = the sum of squares of from[b * kSumBlock …]. `count` may leave the last block
    /// short.
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
