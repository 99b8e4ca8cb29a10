// The kernels in plain C++: what every other set must equal.
#include "fsdp/optimizer/kernels.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

#define AUTOLAUNCH_KERNEL

namespace autolaunch::fsdp {
namespace {

using Floats = float;
using Words = std::uint32_t;

[[maybe_unused]] inline float root_of(float value) { return std::sqrt(value); }
[[maybe_unused]] inline float load_f16(const float16* from) { return static_cast<float>(*from); }
[[maybe_unused]] inline float16 store_f16(float value) { return float16(value); }
[[maybe_unused]] inline float load_bf16(const bfloat16* from) { return static_cast<float>(*from); }
[[maybe_unused]] inline void store_upper_halves(std::uint32_t first, std::uint32_t second,
                                                bfloat16* to) {
    to[0].bits = static_cast<std::uint16_t>(first >> 16);
    to[1].bits = static_cast<std::uint16_t>(second >> 16);
}

#include "fsdp/optimizer/kernel_loops.hpp"

constexpr OptimizerKernels kPlain = kernels_named("plain C++");

}  // namespace

const OptimizerKernels& plain_optimizer_kernels() noexcept { return kPlain; }

}  // namespace autolaunch::fsdp
