#pragma once
// A Gpu for gpt::DeviceMath whose memory is the CPU's: kernels run in an emulated::Grid, and
// products are plain loops.
#include "emulated_grid.hpp"
// What compiles with CUDA's words comes after them.
#include "gpt/cuda/device_math.hpp"

#include <functional>
#include <new>
#include <set>
#include <utility>

namespace gpt {

/// Where the work runs: at once, or in the order of a stream.
struct EmulatedQueue {
    std::function<void(std::function<void()>)> run = [](const std::function<void()>& work) {
        work();
    };
    std::function<void()> synchronize = [] {};
    autolaunch::Stream stream = {};
};

class EmulatedGpu {
public:
    explicit EmulatedGpu(emulated::Turns turns = emulated::Turns::forward, EmulatedQueue queue = {})
        : turns_(turns), queue_(std::move(queue)) {}
    ~EmulatedGpu() {
        queue_.synchronize();
        for (void* memory : allocated_)
            ::operator delete(memory, kAlignment);
    }
    EmulatedGpu(const EmulatedGpu&) = delete;
    EmulatedGpu& operator=(const EmulatedGpu&) = delete;

    void* allocate(std::size_t bytes) {
        void* memory = ::operator new(bytes, kAlignment);
        std::memset(memory, 0xff, bytes);  // NaN: what is used before it is written shows
        allocated_.insert(memory);
        return memory;
    }
    void release(void* memory) {
        queue_.synchronize();
        allocated_.erase(memory);
        ::operator delete(memory, kAlignment);
    }
    void upload(const void* from, void* to, std::size_t bytes) {
        const auto* first = static_cast<const unsigned char*>(from);
        queue_.run([copy = std::vector<unsigned char>(first, first + bytes), to] {
            if (!copy.empty())
                std::memcpy(to, copy.data(), copy.size());
        });
    }
    void download(const void* from, void* to, std::size_t bytes) {
        queue_.synchronize();
        std::memcpy(to, from, bytes);
    }
    void clear(void* memory, std::size_t bytes) {
        queue_.run([=] {
            if (bytes > 0)
                std::memset(memory, 0, bytes);
        });
    }
    void wait() { queue_.synchronize(); }
    autolaunch::Stream stream() const { return queue_.stream; }
    std::string name() const { return "an emulated GPU"; }
    template <class T>
    double data_sheet_flops() const {
        return 0;
    }

    template <class... Parameters, class... Arguments>
    void launch(void (*kernel)(Parameters...), const Geometry& geometry, Arguments... arguments) {
        queue_.run([=, turns = turns_] {
            const auto dim = [](const Extent3& extent) {
                return emulated::Dim3{extent.x, extent.y, extent.z};
            };
            emulated::Grid grid(dim(geometry.blocks), dim(geometry.threads), geometry.shared_bytes,
                                turns);
            grid.run([&] { kernel(arguments...); });
        });
    }

    template <class T>
    void multiply(const Product<T>& product) {
        queue_.run([product] { multiply_now(product); });
    }

private:
    static constexpr std::align_val_t kAlignment{256};

    template <class T>
    static void multiply_now(const Product<T>& p) {
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

    emulated::Turns turns_;
    EmulatedQueue queue_;
    std::set<void*> allocated_;
};

}  // namespace gpt
