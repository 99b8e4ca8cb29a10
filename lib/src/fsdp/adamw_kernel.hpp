#pragma once
#include <cstddef>

namespace autolaunch::fsdp {

/// to[i] += from[i]. The arrays must not overlap.
void add_to(float* to, const float* from, std::size_t count);

}  // namespace autolaunch::fsdp
