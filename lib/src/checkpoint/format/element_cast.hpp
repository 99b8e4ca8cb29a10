#pragma once
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <cstdint>

namespace autolaunch {

/// f32, bf16 and f16 become each other, rounded to nearest, ties to even; every type becomes
/// itself.
bool can_cast(DataType from, DataType to) noexcept;

/// `count` elements; neither side need be aligned. Only where can_cast() holds.
void cast_elements(DataType from, const std::byte* source, DataType to, std::byte* target,
                   std::uint64_t count);

}  // namespace autolaunch
