#pragma once
// Kernels that divide or multiply a buffer by one number, as PTX text. Pure.
#include <autolaunch/comm/types.hpp>

#include <string>

namespace autolaunch {

enum class Scaling { divide, multiply };

/// "divide_bf16", …: entries (data, count, number). The number is f32 for f32, bf16 and f16, f64
/// for f64, and 64 bits wide for integers.
std::string scale_kernel_name(Scaling scaling, DataType type);

/// All of them. bf16 and f16 are computed in f32 and rounded once; integers divide towards zero and
/// wrap.
///
/// PTX 7.0 for sm_70, by hand: every driver of CUDA 12 or later compiles it for its GPU, whatever
/// toolkit built the library, and the build needs no nvcc.
std::string scale_kernels_ptx();

}  // namespace autolaunch
