#pragma once
#include "comm/nccl/cuda_device.hpp"
#include "fsdp/cuda/kernel_arguments.hpp"

#include <autolaunch/comm/device.hpp>
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace autolaunch::fsdp {

/// As CUDA knows the stream.
inline CUstream handle_of(Stream stream) { return static_cast<CUstream>(stream.handle()); }

/// The kernels on one GPU, by name. Each call puts one launch on the stream, under
/// CudaDevice::Current.
///
/// Owner: the model's device and its optimizers, by shared_ptr. Threads: one.
class CudaKernels {
public:
    explicit CudaKernels(std::shared_ptr<CudaDevice> device);

    void cast(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count,
              CUstream stream);
    void accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                    std::size_t count, CUstream stream);
    void find_nonfinite(const void* values, DataType type, std::size_t count, std::uint64_t* first,
                        CUstream stream);
    void sum_in_order(const SumArguments& arguments, CUstream stream);
    void squares(DataType gradient, const SquaresArguments& arguments, CUstream stream);
    void carry(const CarryArguments& arguments, CUstream stream);
    void scale(const ScaleArguments& arguments, CUstream stream);
    /// `name` as update_kernel_name() has it.
    void update(const std::string& name, const UpdateArguments& arguments, CUstream stream);

    CudaDevice& device() const noexcept { return *device_; }

private:
    template <class Arguments>
    void launch(const std::string& name, std::uint64_t blocks, const Arguments& arguments,
                CUstream stream);

    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Module module_;
    std::map<std::string, CUfunction> functions_;
};

/// "update_adamw_f32_f32_bf16": gradient, master, and what is gathered, which is the master where
/// there is no other.
std::string update_kernel_name(const std::string& algorithm, DataType gradient, DataType master,
                               DataType param);

}  // namespace autolaunch::fsdp
