#pragma once
// What the kernels are called with: plain structs, passed by value, for the library, the kernels
// and their tests.
#include "fsdp/optimizer/factors.hpp"

#include <cstdint>

namespace autolaunch::fsdp {

/// A part of one parameter in one shard, which one block of threads updates. Offsets are multiples
/// of 128 elements.
struct UpdateChunk {
    std::uint64_t shard_offset = 0;
    std::uint64_t parameter_offset = 0;
    std::uint32_t shard = 0;    ///< index of its UpdateShard
    std::uint32_t setting = 0;  ///< of its factors
    std::uint32_t run = 0;      ///< of its RoundingKey
    std::uint32_t count = 0;
};

/// Memory of a shard in a step.
struct UpdateShard {
    const void* gradient = nullptr;
    void* master = nullptr;
    void* param = nullptr;
    float* first_state = nullptr;
    float* second_state = nullptr;
    std::uint32_t has_gradient = 0;  ///< 0: nothing is done
    std::uint32_t is_first = 0;      ///< its state was never written
};

/// What the norm decides, in the GPU's memory.
struct StepScale {
    double sum_norm = 0;       ///< of the summed gradients, neither averaged nor unscaled
    float gradient_scale = 1;  ///< average, unscale and clip in one
    std::uint32_t updates = 1;
};

struct UpdateArguments {
    const UpdateChunk* chunks = nullptr;
    std::uint64_t chunk_count = 0;
    const UpdateShard* shards = nullptr;
    const void* factors =
        nullptr;  ///< of the algorithm, by setting; their gradient_scale does not count
    const RoundingKey* keys = nullptr;  ///< by run; of masters in bf16
    const StepScale* scale = nullptr;
};

/// Adds the squares of the gradients to `words`, as ExactSum has them; they are zero before.
struct SquaresArguments {
    const UpdateChunk* chunks = nullptr;
    std::uint64_t chunk_count = 0;
    const UpdateShard* shards = nullptr;
    std::int64_t* words = nullptr;
};

/// The words, carried, as f64: what ranks add up.
struct CarryArguments {
    std::int64_t* words = nullptr;
    double* sums = nullptr;
};

/// The sum's norm, and from it the step's scale.
struct ScaleArguments {
    const double* sums = nullptr;
    StepScale* scale = nullptr;
    double average = 1;
    double max_norm = -1;  ///< negative: no clipping
    std::uint32_t needs_finite = 0;
};

/// Of `cast` and `accumulate` kernels. Pointers are multiples of 16 bytes.
struct CastArguments {
    void* to = nullptr;
    const void* from = nullptr;
    std::uint64_t count = 0;
};

/// Lowers *first to the index of the first value that is a NaN or an infinity.
struct FindArguments {
    const void* values = nullptr;
    std::uint64_t count = 0;
    std::uint64_t* first = nullptr;
};

/// Adds the parts of ranks pairwise, ((0 + 1) + (2 + 3)) + …: own elements, which become the sum,
/// and the others' in the order of their ranks. Pointers and `stride` are multiples of 16 bytes.
struct SumArguments {
    float* to = nullptr;  ///< this rank's part
    const float* others = nullptr;
    std::uint64_t stride = 0;  ///< elements from one part to the next
    std::uint64_t count = 0;
    std::uint32_t ranks = 1;
    std::uint32_t rank = 0;  ///< this one
};

constexpr unsigned kKernelThreads = 256;  // of a block
constexpr std::uint32_t kChunkElements =
    4096;  // 114 KB of AdamW's traffic: hides a block's start, and spreads evenly
constexpr std::uint64_t kNoIndex = ~std::uint64_t{0};

}  // namespace autolaunch::fsdp
