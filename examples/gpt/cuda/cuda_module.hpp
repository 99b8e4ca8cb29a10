#pragma once
#include "gpt/math.hpp"

#include <memory>

namespace gpt {

/// A GPU to compute with. It is in a shared object of its own (gpt_cuda.so), loaded when it is
/// asked for, so that the program starts without CUDA where it trains on CPUs.
class CudaCompute {
public:
    virtual ~CudaCompute() = default;
    virtual Math<float>& f32() = 0;
    virtual Math<autolaunch::bfloat16>& bf16() = 0;
};

/// Whether this build has the shared object.
bool has_cuda_module() noexcept;
/// At least 1. Throws std::runtime_error naming what is missing: the shared object, cuBLAS, a
/// driver that is new enough, or a GPU.
int cuda_device_count();
/// Throws std::runtime_error in the same way.
std::unique_ptr<CudaCompute> load_cuda(int device);

}  // namespace gpt
