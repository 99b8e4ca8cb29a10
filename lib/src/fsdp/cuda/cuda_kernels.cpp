#include "fsdp/cuda/cuda_kernels.hpp"

#include "fsdp/cuda/kernel_image.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::fsdp {

namespace {

constexpr std::uint64_t kMostBlocks =
    1u << 30;  // CUDA takes 2^31 - 1; kernels go on where the grid ends
constexpr std::uint64_t kSumBlocks = 2048;  // fills the largest GPUs; each adds its words up once
constexpr std::uint64_t kGroup = 8;         // elements of a thread in whole arrays

std::string text(DataType type) { return std::string(name_of(type)); }

std::uint64_t blocks_for(std::size_t count) {
    const std::uint64_t threads = (count + kGroup - 1) / kGroup;
    return (threads + kKernelThreads - 1) / kKernelThreads;
}

}  // namespace

std::string update_kernel_name(const std::string& algorithm, DataType gradient, DataType master,
                               DataType param) {
    return "update_" + algorithm + "_" + text(gradient) + "_" + text(master) + "_" + text(param);
}

CudaKernels::CudaKernels(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {
    const CudaDevice::Current current(*device_);
    module_ = device_->load(kernel_image());
}

template <class Arguments>
void CudaKernels::launch(const std::string& name, std::uint64_t blocks, const Arguments& arguments,
                         CUstream stream) {
    CUfunction& function = functions_[name];
    if (function == nullptr)
        function = device_->kernel(module_, name);
    device_->launch(function,
                    static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, kMostBlocks)),
                    kKernelThreads, &arguments, stream);
}

void CudaKernels::cast(void* to, DataType to_type, const void* from, DataType from_type,
                       std::size_t count, CUstream stream) {
    if (to_type == from_type)
        return device_->copy(to, from, count * size_of(to_type), stream);
    if (count == 0)
        return;
    launch("cast_" + text(to_type) + "_" + text(from_type), blocks_for(count),
           CastArguments{to, from, count}, stream);
}

void CudaKernels::accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                             std::size_t count, CUstream stream) {
    if (count == 0)
        return;
    launch("accumulate_" + text(to_type) + "_" + text(from_type), blocks_for(count),
           CastArguments{to, from, count}, stream);
}

void CudaKernels::find_nonfinite(const void* values, DataType type, std::size_t count,
                                 std::uint64_t* first, CUstream stream) {
    if (count == 0)
        return;
    launch("find_nonfinite_" + text(type), blocks_for(count), FindArguments{values, count, first},
           stream);
}

void CudaKernels::sum_in_order(const SumArguments& arguments, CUstream stream) {
    if (arguments.count == 0)
        return;
    launch("sum_in_order", blocks_for(arguments.count), arguments, stream);
}

void CudaKernels::squares(DataType gradient, const SquaresArguments& arguments, CUstream stream) {
    launch("squares_" + text(gradient), std::min(arguments.chunk_count, kSumBlocks), arguments,
           stream);
}

void CudaKernels::carry(const CarryArguments& arguments, CUstream stream) {
    launch("carry_squares", 1, arguments, stream);
}

void CudaKernels::scale(const ScaleArguments& arguments, CUstream stream) {
    launch("step_scale", 1, arguments, stream);
}

void CudaKernels::update(const std::string& name, const UpdateArguments& arguments,
                         CUstream stream) {
    launch(name, arguments.chunk_count, arguments, stream);
}

}  // namespace autolaunch::fsdp
