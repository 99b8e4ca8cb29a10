#include "comm/reduce.hpp"

#include "comm/reduce_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace autolaunch {
namespace {

constexpr std::size_t kLine = 64;

struct Sets {
    std::array<const ReduceKernelSet*, 3> sets{};
    std::size_t count = 0;

    Sets() {
        for (const ReduceKernelSet* set :
             {avx512_reduce_kernels(), avx2_reduce_kernels(), &plain_reduce_kernels()})
            if (set != nullptr)
                sets[count++] = set;
    }
};

const Sets& available() {
    static const Sets sets;
    return sets;
}

// Elements before the first output is at a cache line, where streaming can begin.
std::size_t elements_to_line(const ReduceBuffers& buffers, DataType type) {
    const auto address = reinterpret_cast<std::uintptr_t>(buffers.outputs.front());
    return (kLine - address % kLine) % kLine / size_of(type);
}

}  // namespace

std::span<const ReduceKernelSet* const> reduce_kernel_sets() {
    return {available().sets.data(), available().count};
}

void reduce_with(const ReduceKernelSet& set, const ReduceBuffers& buffers, std::size_t count,
                 DataType type, ReduceOp op) {
    const auto type_index = static_cast<std::size_t>(type),
               op_index = static_cast<std::size_t>(op.kind());
    const ReduceKernel plain = plain_reduce_kernels().kernels[type_index][op_index];
    const std::size_t ranks = buffers.ranks == 0 ? buffers.inputs.size() : buffers.ranks;
    std::size_t done = 0;
    if (buffers.stream && !buffers.outputs.empty())
        done = plain({buffers, 0, std::min(count, elements_to_line(buffers, type)), ranks});
    done += set.kernels[type_index][op_index]({buffers, done, count - done, ranks});
    if (done < count)
        plain({buffers, done, count - done, ranks});
}

void reduce_elements(const ReduceBuffers& buffers, std::size_t count, DataType type, ReduceOp op) {
    reduce_with(*available().sets.front(), buffers, count, type, op);
}

}  // namespace autolaunch
