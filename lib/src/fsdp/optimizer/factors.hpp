#pragma once
// The numbers of one step that the element loops take, on CPUs and on GPUs. Plain structs: kernels
// get copies.
#include <cstddef>
#include <cstdint>

namespace autolaunch::fsdp {

/// The numbers one AdamW step needs, worked out in double and then rounded once. The correction of
/// the second moment is in the step's size and in eps (Kingma and Ba 2015, end of section 2), so no
/// element is divided by it.
struct AdamWFactors {
    float gradient_scale = 1;  ///< 1 / (N · micro_batches · loss scale), times the clip factor
    float decay = 1;           ///< 1 - lr · weight_decay
    float beta1 = 0, one_minus_beta1 = 0;
    float beta2 = 0, one_minus_beta2 = 0;
    float step_size = 0;  ///< lr · sqrt(1 - beta2^t) / (1 - beta1^t)
    float eps = 0;        ///< of the options, · sqrt(1 - beta2^t)
};

struct SGDFactors {
    float gradient_scale = 1;
    float weight_decay = 0;
    float momentum = 0,
          one_minus_dampening = 1;         ///< buffer = momentum · buffer + (1 - dampening) · d
    float direct = 0, through_buffer = 1;  ///< p -= lr · (direct · d + through_buffer · buffer)
    float lr = 0;
};

struct LionFactors {
    float gradient_scale = 1;
    float decay = 1;  ///< 1 - lr · weight_decay
    float beta1 = 0, one_minus_beta1 = 0;
    float beta2 = 0, one_minus_beta2 = 0;
    float lr = 0;
};

/// What the random bits of one parameter's rounding in one step are made from: element i gets the
/// same bits on every rank and for every cut.
struct RoundingKey {
    std::uint32_t low = 0, high = 0;
};

/// Squares are summed in blocks of so many elements of a parameter, in f64 and one fixed order.
constexpr std::size_t kSumBlock = 64;
/// Of a block: lane l holds the squares of elements l, l + 16, …; then the upper half of the lanes
/// is added to the lower one, until one is left.
constexpr std::size_t kSumLanes = 16;

}  // namespace autolaunch::fsdp
