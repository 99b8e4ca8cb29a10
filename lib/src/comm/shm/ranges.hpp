#pragma once
// How buffers are cut. Pure.
#include <algorithm>
#include <cstddef>

namespace autolaunch::shm {

/// A contiguous part of a buffer, in elements or bytes.
struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
};

/// A rank as an index.
constexpr std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Slice `index` of `parts` of `count` elements: equal ones, each a multiple of `quantum`, but for
/// the last.
constexpr Range slice_of(std::size_t count, std::size_t parts, std::size_t index,
                         std::size_t quantum) {
    const std::size_t each = ((count + parts - 1) / parts + quantum - 1) / quantum * quantum;
    const std::size_t begin = std::min(index * each, count);
    return {begin, std::min(each, count - begin)};
}

/// Piece `index` of a buffer of `count` elements, cut every `piece_elements`.
constexpr Range piece_of(std::size_t count, std::size_t piece_elements, std::size_t index) {
    const std::size_t begin = std::min(index * piece_elements, count);
    return {begin, std::min(piece_elements, count - begin)};
}

constexpr std::size_t pieces_in(std::size_t count, std::size_t piece_elements) {
    return count / piece_elements + (count % piece_elements != 0);
}

constexpr std::size_t kSliceAlignment = 64;  // bytes: no two ranks write one cache line

}  // namespace autolaunch::shm
