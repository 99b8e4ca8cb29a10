#include "fsdp/cuda/cuda_ordered_sums.hpp"

#include <algorithm>
#include <vector>

namespace autolaunch::fsdp {

namespace {

// What is left of a block behind `begin`, at most `most`.
std::size_t part_of(std::size_t count, std::size_t begin, std::size_t most) {
    return count > begin ? std::min(count - begin, most) : 0;
}

}  // namespace

void CudaOrderedSums::sum_blocks(Communicator& ranks, float* values,
                                 std::span<const std::size_t> counts, Stream stream) {
    const CudaDevice::Current current(kernels_.device());
    const auto own = static_cast<std::size_t>(ranks.rank());
    const std::size_t room = exchange_.bytes() / sizeof(float) / (counts.size() - 1);
    const std::size_t part = std::min(counts[0], room / kBlockQuantum * kBlockQuantum);
    auto* others = static_cast<float*>(exchange_.data());
    for (std::size_t begin = 0; begin < counts[0]; begin += part) {
        const std::size_t mine = part_of(counts[own], begin, part);
        float *block = values, *own_block = values, *from = others;
        ranks.group_start();
        for (std::size_t peer = 0; peer < counts.size(); block += counts[peer++]) {
            if (peer == own) {
                own_block = block;
                continue;
            }
            const std::size_t theirs = part_of(counts[peer], begin, part);
            if (theirs > 0)
                ranks.send(block + begin, theirs, DataType::f32, static_cast<int>(peer), stream);
            if (mine > 0)
                ranks.recv(from, mine, DataType::f32, static_cast<int>(peer), stream);
            from += part;
        }
        ranks.group_end(stream);
        SumArguments arguments;
        arguments.to = own_block + begin;
        arguments.others = others;
        arguments.stride = part;
        arguments.count = mine;
        arguments.ranks = static_cast<std::uint32_t>(counts.size());
        arguments.rank = static_cast<std::uint32_t>(own);
        kernels_.sum_in_order(arguments, handle_of(stream));
    }
}

void CudaOrderedSums::reduce_scatter(Communicator& ranks, float* whole, std::size_t count,
                                     Stream stream) {
    sum_blocks(ranks, whole,
               std::vector<std::size_t>(static_cast<std::size_t>(ranks.size()), count), stream);
}

// A reduce-scatter and a gather of the blocks: who holds a sum gives it to all, so that all have
// the same bits.
void CudaOrderedSums::all_reduce(Communicator& ranks, float* values, std::size_t count,
                                 Stream stream) {
    const auto size = static_cast<std::size_t>(ranks.size());
    const std::size_t block = block_of(count, size);
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < size; ++rank)
        counts.push_back(part_of(count, rank * block, block));
    sum_blocks(ranks, values, counts, stream);
    const auto own = static_cast<std::size_t>(ranks.rank());
    ranks.all_gather_v(values + std::min(own * block, count), values, counts, DataType::f32,
                       stream);
}

}  // namespace autolaunch::fsdp
