#pragma once
// How many unique ids a communicator of many ranks starts from, and who makes them. Pure.

namespace autolaunch {

/// Each id is a place where ranks meet, and one for thousands is slow: one for every 64 ranks,
/// where NCCL can (ncclCommInitRankScalable).
constexpr int nccl_id_count(int ranks, bool scalable) noexcept {
    return scalable ? (ranks + 63) / 64 : 1;
}

/// The rank that makes id `index`: they are spread over the ranks, and so over the nodes.
constexpr int nccl_id_maker(int index, int ids, int ranks) noexcept {
    return static_cast<int>(static_cast<long long>(index) * ranks / ids);
}

}  // namespace autolaunch
