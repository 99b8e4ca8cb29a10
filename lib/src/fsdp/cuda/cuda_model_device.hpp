#pragma once
#include "fsdp/model_device.hpp"

#include <autolaunch/comm/device.hpp>

#include <memory>

namespace autolaunch {
class CudaDevice;  // comm/nccl/cuda_device.hpp
}

namespace autolaunch::fsdp {

/// A GPU's memory, streams of the library's own for the lanes, and kernels of its own. Throws
/// Error{unsupported} where the library was built without kernels.
std::unique_ptr<ModelDevice> make_cuda_model_device(std::shared_ptr<CudaDevice> device);

}  // namespace autolaunch::fsdp
