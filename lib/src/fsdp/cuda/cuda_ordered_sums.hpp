#pragma once
#include "fsdp/cuda/cuda_kernels.hpp"
#include "fsdp/ordered_sums.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace autolaunch::fsdp {

/// Each rank sends every other one its part of that one's block, and a kernel adds what came in the
/// tree's order: as many bytes as a reduce-scatter moves. All on the stream that it is given; the
/// host waits for nothing.
class CudaOrderedSums final : public OrderedSums {
public:
    /// `exchange` has room for kBlockQuantum elements of each other rank at least. What does not
    /// fit comes in turns.
    CudaOrderedSums(CudaKernels& kernels, CommunicatorBuffer exchange)
        : kernels_(kernels), exchange_(std::move(exchange)) {}

    void reduce_scatter(Communicator& ranks, float* whole, std::size_t count,
                        Stream stream) override;
    void all_reduce(Communicator& ranks, float* values, std::size_t count, Stream stream) override;
    std::size_t bytes() const noexcept override { return exchange_.bytes(); }

private:
    /// values = the ranks' blocks, one after the other; this rank's becomes the sum. The first is
    /// the longest.
    void sum_blocks(Communicator& ranks, float* values, std::span<const std::size_t> counts,
                    Stream stream);

    CudaKernels& kernels_;
    CommunicatorBuffer exchange_;
};

}  // namespace autolaunch::fsdp
