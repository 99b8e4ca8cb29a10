#pragma once
// A Gpu for DeviceMath: CUDA's runtime and cuBLAS. Only nvcc compiles this.
#include "gpt/cuda/data_sheets.hpp"
#include "gpt/cuda/device_math.hpp"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace gpt {

inline void check(cudaError_t result, const char* doing) {
    if (result != cudaSuccess)
        throw std::runtime_error(std::string("cannot ") + doing + ": CUDA says " +
                                 cudaGetErrorString(result));
}
inline void check(cublasStatus_t result, const char* doing) {
    if (result != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string("cannot ") + doing + ": cuBLAS says " +
                                 cublasGetStatusString(result));
}

/// One device, with a stream of its own. Threads: one. Throws std::runtime_error with CUDA's own
/// words.
class CudaGpu {
public:
    explicit CudaGpu(int device) : device_(device) {
        check(cudaSetDevice(device), "use the GPU");
        cudaDeviceProp properties;
        check(cudaGetDeviceProperties(&properties, device), "read the GPU's properties");
        if (properties.major < 8)
            throw std::runtime_error(std::string("the kernels need compute capability 8.0; ") +
                                     properties.name + " has " + std::to_string(properties.major) +
                                     "." + std::to_string(properties.minor));
        name_ = properties.name;
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
        check(cublasCreate(&cublas_), "start cuBLAS");
        check(cublasSetStream(cublas_, stream_), "give cuBLAS a stream");
        // Or the sums of a product that cuBLAS cuts along its depth may be rounded to bf16 in
        // between.
        constexpr auto kSumsInF32 = static_cast<cublasMath_t>(
            CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
        check(cublasSetMathMode(cublas_, kSumsInF32), "keep cuBLAS's sums in 32 bits");
    }
    CudaGpu(const CudaGpu&) = delete;
    CudaGpu& operator=(const CudaGpu&) = delete;
    ~CudaGpu() {
        cublasDestroy(cublas_);
        cudaStreamDestroy(stream_);
    }

    void* allocate(std::size_t bytes) {
        void* memory = nullptr;
        check(cudaMalloc(&memory, bytes),
              ("allocate " + std::to_string(bytes) + " bytes on the GPU").c_str());
        return memory;
    }
    void release(void* memory) noexcept { cudaFree(memory); }  // waits for what uses it
    void upload(const void* from, void* to, std::size_t bytes) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copy to the GPU");
    }
    void download(const void* from, void* to, std::size_t bytes) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
              "copy from the GPU");
        wait();
    }
    void clear(void* memory, std::size_t bytes) {
        check(cudaMemsetAsync(memory, 0, bytes, stream_), "clear memory");
    }
    void wait() { check(cudaStreamSynchronize(stream_), "wait for the GPU"); }
    autolaunch::Stream stream() const { return autolaunch::Stream::cuda(device_, stream_); }
    std::string name() const { return name_; }

    template <class T>
    double data_sheet_flops() const {
        const DataSheet sheet = data_sheet_of(name_);
        return sizeof(T) == 2 ? sheet.bf16_flops : sheet.f32_flops;
    }

    template <class... Parameters, class... Arguments>
    void launch(void (*kernel)(Parameters...), const Geometry& geometry, Arguments... arguments) {
        constexpr std::size_t kWithoutAsking = 48 << 10;
        if (geometry.shared_bytes > kWithoutAsking)
            check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(geometry.shared_bytes)),
                  "get shared memory for a kernel");
        const auto dim = [](const Extent3& extent) { return dim3(extent.x, extent.y, extent.z); };
        kernel<<<dim(geometry.blocks), dim(geometry.threads), geometry.shared_bytes, stream_>>>(
            arguments...);
        check(cudaGetLastError(), "start a kernel");
    }

    /// cuBLAS counts columns first: it sees each row-major matrix transposed, and computes c^T =
    /// b^T a^T.
    template <class T>
    void multiply(const Product<T>& p) {
        constexpr cudaDataType_t kType = sizeof(T) == 2 ? CUDA_R_16BF : CUDA_R_32F;
        const float one = 1;
        const float kept = p.adds ? 1 : 0;
        const auto operation = [](bool transposed) {
            return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
        };
        const auto a_stride = static_cast<int>(p.a_transposed ? p.rows : p.depth);
        const auto b_stride = static_cast<int>(p.b_transposed ? p.depth : p.columns);
        const auto columns = static_cast<int>(p.columns);
        check(cublasGemmEx(cublas_, operation(p.b_transposed), operation(p.a_transposed), columns,
                           static_cast<int>(p.rows), static_cast<int>(p.depth), &one, p.b, kType,
                           b_stride, p.a, kType, a_stride, &kept, p.c, kType, columns,
                           CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              "multiply matrices");
    }

private:
    int device_;
    std::string name_;
    cudaStream_t stream_ = nullptr;
    cublasHandle_t cublas_ = nullptr;
};

}  // namespace gpt
