#include "fsdp/optimizer/kernels.hpp"

#include <array>

namespace autolaunch::fsdp {

namespace {

struct Sets {
    std::array<const OptimizerKernels*, 3> sets{};
    std::size_t count = 0;

    Sets() {
        for (const OptimizerKernels* set :
             {avx512_optimizer_kernels(), avx2_optimizer_kernels(), &plain_optimizer_kernels()})
            if (set != nullptr)
                sets[count++] = set;
    }
};

}  // namespace

std::span<const OptimizerKernels* const> optimizer_kernel_sets() {
    static const Sets sets;
    return {sets.sets.data(), sets.count};
}

const OptimizerKernels& optimizer_kernels() { return *optimizer_kernel_sets().front(); }

}  // namespace autolaunch::fsdp
