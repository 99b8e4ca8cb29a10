#pragma once
// A vector cut in a slice for each rank.
#include "comm/call.hpp"

#include <cstddef>
#include <vector>

namespace autolaunch {

/// `total` elements in as many blocks as there are ranks, the first ones an element longer.
inline BlockCounts even_blocks(std::size_t total, int ranks) {
    const auto parts = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> counts(parts, total / parts);
    for (std::size_t i = 0; i < total % parts; ++i)
        ++counts[i];
    return BlockCounts::ragged(counts);
}

}  // namespace autolaunch
