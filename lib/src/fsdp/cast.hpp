#pragma once
// Loops over f32, bf16 and f16 values. Compiled for speed (CMakeLists.txt), equal to the bit on
// every CPU.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <optional>

namespace autolaunch::fsdp {

/// to[i] = from[i], rounded to nearest even.
void cast(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count);
/// to[i] += from[i], summed in f32 and rounded once.
void accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                std::size_t count);
/// The first value that is a NaN or an infinity.
std::optional<std::size_t> first_nonfinite(const void* values, DataType type, std::size_t count);

}  // namespace autolaunch::fsdp
