#pragma once
// The kernels of GPUs (lib/src/fsdp/cuda) compiled for the CPU: every thread of every block, one
// after the other.
#include "fsdp/cuda/kernel_arguments.hpp"

#include <autolaunch/comm/types.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define AUTOLAUNCH_INLINE inline

namespace autolaunch::fsdp::host_kernels {

inline float square_root(float value) { return std::sqrt(value); }
inline float half_to_float(std::uint16_t bits) {
    float16 half;
    half.bits = bits;
    return static_cast<float>(half);
}
inline std::uint16_t float_to_half(float value) { return float16(value).bits; }
template <class Packet>
Packet stream_in(const Packet* from) {
    return *from;
}
inline void lower(std::uint64_t* to, std::uint64_t value) { *to = std::min(*to, value); }

#include "fsdp/cuda/kernel_bodies.hpp"

template <class Body>
void run_threads(unsigned blocks, unsigned threads, Body body) {
    for (unsigned block = 0; block < blocks; ++block)
        for (unsigned thread = 0; thread < threads; ++thread)
            body(GridPlace{block, blocks, thread, threads});
}

/// What four threads do together on a GPU; the order of the additions is the same.
template <class Gradient>
void sum_squares(const SquaresArguments& arguments) {
    for (std::uint64_t c = 0; c < arguments.chunk_count; ++c) {
        const UpdateChunk chunk = arguments.chunks[c];
        const UpdateShard shard = arguments.shards[chunk.shard];
        if (shard.has_gradient == 0)
            continue;
        for (unsigned done = 0; done < chunk.count; done += kSumBlock) {
            double lanes[kQuad][4];
            for (unsigned quarter = 0; quarter < kQuad; ++quarter)
                sum_lanes<Gradient>(shard.gradient, chunk.shard_offset + done, chunk.count - done,
                                    quarter, lanes[quarter]);
            for (unsigned distance = 2; distance > 0; distance /= 2)
                for (unsigned quarter = 0; quarter < distance; ++quarter)
                    for (unsigned k = 0; k < 4; ++k)
                        lanes[quarter][k] += lanes[quarter + distance][k];
            add_exactly(fold_four(lanes[0]),
                        [&](int word, std::int64_t amount) { arguments.words[word] += amount; });
        }
    }
}

}  // namespace autolaunch::fsdp::host_kernels
