#pragma once
// Element-wise reduction on the CPU, for backends that reduce by themselves.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <span>

namespace autolaunch {

/// outputs[k][i] = inputs[0][i] op inputs[1][i] op …, from left to right, for i < count and every output. An output may
/// be an input, at the same place. bf16 is accumulated in f32 and rounded once. Integers wrap; min and max of NaN give
/// one of the operands. Needs at least one input. Pure; the result depends on the order of inputs alone, so whoever
/// computes an element gets the same bits.
void reduce_elements(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
                     DataType type, ReduceOp op);

}  // namespace autolaunch
