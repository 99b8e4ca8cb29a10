// The kernels in plain C++: what every other set must equal.
#include "fsdp/optimizer/kernels.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

#define AUTOLAUNCH_KERNEL

namespace autolaunch::fsdp {
namespace {

using Floats = float;

[[maybe_unused]] inline float root_of(float value) { return std::sqrt(value); }
[[maybe_unused]] inline float load_f16(const float16* from) { return static_cast<float>(*from); }
[[maybe_unused]] inline float16 store_f16(float value) { return float16(value); }

#include "fsdp/optimizer/kernel_loops.hpp"

constexpr OptimizerKernels kPlain = AUTOLAUNCH_OPTIMIZER_KERNELS("plain C++");

}  // namespace

const OptimizerKernels& plain_optimizer_kernels() noexcept { return kPlain; }

}  // namespace autolaunch::fsdp
