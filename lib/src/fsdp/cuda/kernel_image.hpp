#pragma once

namespace autolaunch::fsdp {

/// The kernels, a part of the library: what nvcc made of kernels.cu for sm_80 and sm_90, and PTX
/// for newer GPUs. The driver takes it as it is, so the library needs no CUDA runtime.
const void* kernel_image() noexcept;

}  // namespace autolaunch::fsdp
