#include "gpt/cuda/cuda_module.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#if !defined(GPT_CUDA_MODULE)
#define GPT_CUDA_MODULE ""
#endif

namespace gpt {

bool has_cuda_module() noexcept { return GPT_CUDA_MODULE[0] != '\0'; }

namespace {

/// A function of the shared object. That is never closed: CUDA's runtime does not bear being
/// unloaded.
template <class Function>
Function* require(const char* name) {
    if (!has_cuda_module())
        throw std::runtime_error(
            "this build cannot compute on GPUs: nvcc and cuBLAS were not found when it was made");
    void* module = ::dlopen(GPT_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        throw std::runtime_error(std::string("cannot load the GPU's part: ") + ::dlerror());
    auto* function = reinterpret_cast<Function*>(::dlsym(module, name));
    if (!function)
        throw std::runtime_error(std::string("cannot use the GPU's part: ") + ::dlerror());
    return function;
}

}  // namespace

int cuda_device_count() { return require<int()>("gpt_cuda_device_count")(); }

std::unique_ptr<CudaCompute> load_cuda(int device) {
    return std::unique_ptr<CudaCompute>(
        require<CudaCompute*(int)>("gpt_make_cuda_compute")(device));
}

}  // namespace gpt
