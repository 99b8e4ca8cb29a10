#include "comm/nccl/cuda_driver.hpp"

#include "comm/nccl/shared_object.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

namespace autolaunch {

CudaDriver CudaDriver::load(const std::string& library) {
    const SharedObject object(
        library, "backend nccl needs a GPU and its driver; without them use another backend");
    CudaDriver driver;
#define AUTOLAUNCH_NAME(name) #name
#define AUTOLAUNCH_FIND(name) object.require(AUTOLAUNCH_NAME(name), driver.name);
    AUTOLAUNCH_CUDA_FUNCTIONS(AUTOLAUNCH_FIND)
#undef AUTOLAUNCH_FIND
#undef AUTOLAUNCH_NAME
    driver.check(driver.cuInit(0), "start CUDA");
    return driver;
}

std::string CudaDriver::text(CUresult result) const {
    const char* name = nullptr;
    const char* words = nullptr;
    cuGetErrorName(result, &name);
    cuGetErrorString(result, &words);
    if (name == nullptr)
        return fmt::format("error {}", static_cast<int>(result));
    return words == nullptr ? std::string(name) : fmt::format("{} ({})", name, words);
}

void CudaDriver::check(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS)
        return;
    throw Error(ErrorCode::system, fmt::format("cannot {}: CUDA says {}", doing, text(result)));
}

}  // namespace autolaunch
