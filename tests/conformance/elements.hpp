#pragma once
// Elements of any type as numbers: what the suite fills buffers with and reads back.
#include <autolaunch/comm/types.hpp>

#include <cstddef>

namespace autolaunch::conformance {

/// Element `index` of a buffer, which may start anywhere.
double load(DataType type, const void* buffer, std::size_t index);
/// Rounds as the type does.
void store(DataType type, void* buffer, std::size_t index, double value);
/// `value` as the type keeps it.
double rounded(DataType type, double value);
bool is_integer(DataType type);

/// What rank `rank` brings as element `index` of a call that only moves: 1 to 101, exact in every
/// type.
double moved_input(int rank, std::size_t index);
/// What it brings to a reduction: small enough that results of 16 ranks are exact in every type.
double reduced_input(ReduceOp::Kind op, int rank, std::size_t index);
/// The rank's factor of pre_multiplied_sum.
double factor_of(DataType type, int rank);
ReduceOp op_of(ReduceOp::Kind op, DataType type, int rank);
/// The reduction of `size` ranks' elements at `index`, as the contract says it is rounded.
double reduced(ReduceOp::Kind op, DataType type, int size, std::size_t index);

}  // namespace autolaunch::conformance
