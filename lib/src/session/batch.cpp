#include <autolaunch/error.hpp>
#include <autolaunch/session/batch.hpp>

#include <algorithm>

namespace autolaunch {

namespace {

std::string describe(std::int64_t global_batch, std::int64_t at_once, std::int64_t passes,
                     int world_size) {
    const std::int64_t larger = global_batch % world_size;
    const std::string batch = "a global batch of " + std::to_string(global_batch) + " on " +
                              std::to_string(world_size) + " ranks: ";
    if (larger > 0)
        return batch + "ranks from " + std::to_string(larger) + " up have one sample less";
    if (global_batch / world_size != at_once * passes)
        return batch + "the last of " + std::to_string(passes) + " passes has " +
               std::to_string(global_batch / world_size - at_once * (passes - 1)) +
               " samples, not " + std::to_string(at_once);
    return {};
}

}  // namespace

BatchShare share_batch(std::int64_t global_batch, std::int64_t micro_batch, int rank,
                       int world_size) {
    if (world_size < 1 || rank < 0 || rank >= world_size || micro_batch < 0)
        throw Error(ErrorCode::invalid_argument, "no share of a batch: rank " +
                                                     std::to_string(rank) + " of " +
                                                     std::to_string(world_size) + ", micro batch " +
                                                     std::to_string(micro_batch));
    if (global_batch < world_size)
        throw Error(ErrorCode::invalid_argument,
                    "a global batch of " + std::to_string(global_batch) + " leaves some of " +
                        std::to_string(world_size) + " ranks without work",
                    "make it as large as the number of ranks, or start fewer of them");
    const std::int64_t smaller = global_batch / world_size, larger = global_batch % world_size;
    const std::int64_t most = smaller + (larger > 0 ? 1 : 0);
    BatchShare share;
    share.first = rank * smaller + std::min<std::int64_t>(rank, larger);
    share.count = smaller + (rank < larger ? 1 : 0);
    share.at_once = micro_batch > 0 ? std::min(micro_batch, most) : most;
    share.passes = (most + share.at_once - 1) / share.at_once;
    share.weight = static_cast<double>(world_size) / static_cast<double>(global_batch);
    share.notice = describe(global_batch, share.at_once, share.passes, world_size);
    return share;
}

}  // namespace autolaunch
