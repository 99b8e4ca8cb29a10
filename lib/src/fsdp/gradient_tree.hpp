#pragma once
#include "fsdp/model_device.hpp"

#include <atomic>
#include <cstddef>
#include <vector>

namespace autolaunch::fsdp {

/// Sums f32 vectors pairwise in the order in which they come, ((0 + 1) + (2 + 3)) + …, as they
/// come: a binary counter whose digit k is the sum of 2^k vectors. Together with a pairwise sum
/// over a power of two of ranks it is one tree over all micro-batches of all ranks, whatever the
/// number of ranks, when rank r takes micro-batch r, r + N, r + 2N, …
///
/// Owner: the reducer. Threads: one at a time; on a GPU the work is on the stream. Memory: one
/// vector for each doubling of the micro-batches after the first. `result` is the caller's vector:
/// digit 0, and the sum after finish().
class GradientTree {
public:
    void add(ModelDevice& device, float* result, const float* values, std::size_t count,
             Stream stream);
    void finish(ModelDevice& device, float* result, std::size_t count, Stream stream);
    /// What was added counts no more.
    void discard() noexcept { added_ = 0; }
    std::size_t bytes() const noexcept { return bytes_; }  ///< any thread may ask

private:
    std::vector<CommunicatorBuffer> digits_;  // of 2, 4, 8, … vectors
    std::atomic<std::size_t> bytes_ = 0;      // of them all
    std::size_t added_ = 0;                   // bit k is set while digit k holds a sum
};

}  // namespace autolaunch::fsdp
