// In the place of the other sources of this folder, where the library is built without nvcc.
#include "fsdp/cuda/cuda_model_device.hpp"
#include "fsdp/optimizer/update_passes.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch::fsdp {

std::unique_ptr<ModelDevice> make_cuda_model_device(std::shared_ptr<CudaDevice>) {
    throw Error(ErrorCode::unsupported,
                "this build shards models in the CPU's memory only: it has no kernels for GPUs",
                "configure where nvcc of CUDA 12 or later is found (AUTOLAUNCH_WITH_CUDA=ON says "
                "why it is not), or "
                "give ShardedModel a communicator of CPUs");
}

std::unique_ptr<UpdatePasses> make_cuda_update_passes(OptimizedModel&, std::unique_ptr<Algorithm>,
                                                      const UpdateOptions&) {
    throw Error(ErrorCode::unsupported, "this build has no optimizers for GPUs");
}

}  // namespace autolaunch::fsdp
