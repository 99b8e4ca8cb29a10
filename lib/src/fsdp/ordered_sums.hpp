#pragma once
// Sums over ranks in one order, where the communicator chooses its own.
#include <autolaunch/comm/communicator.hpp>

#include <cstddef>

namespace autolaunch::fsdp {

/// Sums of f32 pairwise over the ranks, ((0 + 1) + (2 + 3)) + …: the bits of the CPU's
/// communicators. On a stream.
///
/// Owner: the reducer. Threads: one at a time.
class OrderedSums {
public:
    virtual ~OrderedSums() = default;
    /// `whole` has a block of `count` elements, a multiple of 4, for each rank; this rank's becomes
    /// the sum over ranks.
    virtual void reduce_scatter(Communicator& ranks, float* whole, std::size_t count,
                                Stream stream) = 0;
    /// Each element becomes the sum of all ranks'.
    virtual void all_reduce(Communicator& ranks, float* values, std::size_t count,
                            Stream stream) = 0;
    virtual std::size_t bytes() const noexcept = 0;
};

/// How ranks cut what they sum: blocks are whole packets of 512 bytes.
inline constexpr std::size_t kBlockQuantum = 128;
/// A rank's block where `ranks` cut `count` elements of an all_reduce; the last ones may have less.
constexpr std::size_t block_of(std::size_t count, std::size_t ranks) noexcept {
    const std::size_t each = (count + ranks - 1) / ranks;
    return (each + kBlockQuantum - 1) / kBlockQuantum * kBlockQuantum;
}

/// What others send of this rank's block comes in parts: no more than so many bytes are in memory
/// at a time.
inline constexpr std::size_t kMostExchangeBytes = std::size_t{64} << 20;
/// Elements of one rank's part of a block; of two ranks or more.
constexpr std::size_t exchange_part(std::size_t block, std::size_t ranks) noexcept {
    const std::size_t fits =
        kMostExchangeBytes / sizeof(float) / (ranks - 1) / kBlockQuantum * kBlockQuantum;
    const std::size_t most = fits < kBlockQuantum ? kBlockQuantum : fits;
    return block < most ? block : most;
}
/// Elements in memory where `shards` ranks reduce_scatter() blocks of `shard` elements, and
/// `copies` all_reduce() one.
constexpr std::size_t exchange_elements(std::size_t shard, std::size_t shards,
                                        std::size_t copies) noexcept {
    const std::size_t scattered = shards < 2 ? 0 : (shards - 1) * exchange_part(shard, shards);
    const std::size_t copied =
        copies < 2 ? 0 : (copies - 1) * exchange_part(block_of(shard, copies), copies);
    return scattered > copied ? scattered : copied;
}

}  // namespace autolaunch::fsdp
