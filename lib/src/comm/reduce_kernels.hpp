#pragma once
// The kernels behind reduce_elements(): one set for each kind of CPU. All sets give the same bits.
#include "comm/reduce.hpp"

#include <autolaunch/export.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace autolaunch {

constexpr std::size_t kReduceOps = 6;

/// Elements begin … begin + count - 1 of a reduction.
struct ReduceTask {
    const ReduceBuffers& buffers;
    std::size_t begin;
    std::size_t count;
    std::size_t ranks;  ///< what avg divides by
};

/// Reduces the task's first elements and returns how many: all that fill whole cache lines, or all.
using ReduceKernel = std::size_t (*)(const ReduceTask& task);

struct ReduceKernelSet {
    std::string_view name;
    ReduceKernel kernels[kDataTypes][kReduceOps];
};

/// Plain C++: reduces all.
const ReduceKernelSet& plain_reduce_kernels() noexcept;
/// Null where the compiler or this CPU does not know the instructions.
const ReduceKernelSet* avx2_reduce_kernels() noexcept;
const ReduceKernelSet* avx512_reduce_kernels() noexcept;

/// All that this CPU can run, the best first.
AUTOLAUNCH_API std::span<const ReduceKernelSet* const> reduce_kernel_sets();
/// reduce_elements() by one set.
AUTOLAUNCH_API void reduce_with(const ReduceKernelSet& set, const ReduceBuffers& buffers,
                                std::size_t count, DataType type, ReduceOp op);

}  // namespace autolaunch
