#pragma once
// Element-wise reduction on the CPU, for backends that reduce by themselves.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <span>

namespace autolaunch {

struct ReduceBuffers {
    std::span<const void* const> inputs;  ///< at least one, in rank order
    std::span<const double> factors =
        {};                          ///< of pre_multiplied_sum, one for each input; else empty
    std::span<void* const> outputs;  ///< each gets the result; may be an input, at the same place
    std::size_t ranks = 0;           ///< what avg divides by; 0: as many as there are inputs
    /// Past the caches: for outputs that nobody reads soon, and that are not inputs.
    bool stream = false;
};

/// outputs[k][i] = inputs[0][i] op inputs[1][i] op …, for i < count and every output, pairwise: ((0
/// + 1) + (2 + 3)) + …. bf16 and f16 are accumulated in f32 and rounded once. Integers wrap; min
/// and max of NaN give one of the operands. Pure; the result depends on the order of inputs alone,
/// so whoever computes an element gets the same bits, on every kind of CPU.
void reduce_elements(const ReduceBuffers& buffers, std::size_t count, DataType type, ReduceOp op);

}  // namespace autolaunch
