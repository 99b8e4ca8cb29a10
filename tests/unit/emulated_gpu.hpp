#pragma once
// A Gpu for gpt::DeviceMath whose memory is the CPU's: kernels run in an emulated::Grid, and products are plain loops.
#include "emulated_grid.hpp"
// What compiles with CUDA's words comes after them.
#include "gpt/cuda/device_math.hpp"

#include <map>
#include <new>

namespace gpt {

class EmulatedGpu {
public:
    explicit EmulatedGpu(emulated::Turns turns = emulated::Turns::forward) : turns_(turns) {}
    ~EmulatedGpu() {
        for (const auto& [memory, bytes] : allocated_) ::operator delete (memory, std::align_val_t{256});
    }
    EmulatedGpu(const EmulatedGpu&) = delete;
    EmulatedGpu& operator=(const EmulatedGpu&) = delete;

    void* allocate(std::size_t bytes) {
        void* memory = ::operator new (bytes, std::align_val_t{256});
        std::memset(memory, 0xff, bytes);  // NaN: what is used before it is written shows
        allocated_[memory] = bytes;
        return memory;
    }
    void release(void* memory) {
        allocated_.erase(memory);
        ::operator delete (memory, std::align_val_t{256});
    }
    void upload(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }
    void download(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }
    void clear(void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); }
    void wait() {}
    autolaunch::Stream stream() const { return {}; }
    std::string name() const { return "an emulated GPU"; }
    template <class T>
    double data_sheet_flops() const {
        return 0;
    }

    template <class... Parameters, class... Arguments>
    void launch(void (*kernel)(Parameters...), const Geometry& geometry, Arguments... arguments) {
        const auto dim = [](const Extent3& extent) { return emulated::Dim3{extent.x, extent.y, extent.z}; };
        emulated::Grid grid(dim(geometry.blocks), dim(geometry.threads), geometry.shared_bytes, turns_);
        grid.run([&] { kernel(arguments...); });
    }

    template <class T>
    void multiply(const Product<T>& p) {
        for (std::int64_t i = 0; i < p.rows; ++i) {
            for (std::int64_t j = 0; j < p.columns; ++j) {
                T& c = p.c[i * p.columns + j];
                float sum = p.adds ? to_float(c) : 0.0f;
                for (std::int64_t k = 0; k < p.depth; ++k) {
                    sum += to_float(p.a[p.a_transposed ? k * p.rows + i : i * p.depth + k]) *
                           to_float(p.b[p.b_transposed ? j * p.depth + k : k * p.columns + j]);
                }
                c = from_float<T>(sum);
            }
        }
    }

private:
    emulated::Turns turns_;
    std::map<void*, std::size_t> allocated_;
};

}  // namespace gpt
