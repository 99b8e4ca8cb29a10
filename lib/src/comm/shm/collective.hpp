#pragma once
// One call of a collective on the shm backend, private to its sources.
#include "comm/shm/shm_backend.hpp"

#include <algorithm>

namespace autolaunch {

struct ShmBackend::Collective {
    shm::Operation operation;
    shm::Descriptor descriptor;
    std::uint64_t first_piece;

    DataType type() const noexcept { return descriptor.type; }
    std::size_t element_bytes() const noexcept { return size_of(descriptor.type); }
};

namespace shm {

/// A contiguous part of a buffer, in elements.
struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
};

/// Slice `index` of `parts` of `count` elements: equal ones, each a multiple of `quantum`, but for the last.
constexpr Range slice_of(std::size_t count, std::size_t parts, std::size_t index, std::size_t quantum) {
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

}  // namespace shm
}  // namespace autolaunch
