// gpt_cuda.so: all of the example that nvcc compiles.
#include "gpt/cuda/cuda_gpu.hpp"
#include "gpt/cuda/cuda_module.hpp"

namespace gpt {
namespace {

class CudaComputeOf final : public CudaCompute {
public:
    explicit CudaComputeOf(int device) : gpu_(device), f32_(gpu_), bf16_(gpu_) {}
    Math<float>& f32() override { return f32_; }
    Math<autolaunch::bfloat16>& bf16() override { return bf16_; }

private:
    CudaGpu gpu_;
    DeviceMath<float, CudaGpu> f32_;
    DeviceMath<autolaunch::bfloat16, CudaGpu> bf16_;
};

}  // namespace
}  // namespace gpt

extern "C" __attribute__((visibility("default"))) gpt::CudaCompute* gpt_make_cuda_compute(
    int device) {
    return new gpt::CudaComputeOf(device);
}

extern "C" __attribute__((visibility("default"))) int gpt_cuda_device_count() {
    int count = 0;
    gpt::check(cudaGetDeviceCount(&count), "count the GPUs");  // none is an error, too
    return count;
}
