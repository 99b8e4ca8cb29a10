#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace autolaunch {

/// A box of a tensor whose elements follow each other in the row-major flattened tensor.
struct RunBox {
    std::vector<std::int64_t> begin;  ///< of each dimension
    std::vector<std::int64_t> shape;
    std::int64_t offset = 0;  ///< first element in the flattened tensor
    std::int64_t count = 0;

    bool operator==(const RunBox&) const = default;
};

/// The fewest boxes that make up a run of elements of a tensor with k dimensions, in the order of
/// their elements: at most 2k - 1. A run inside one row is one box; a longer one is the end of a
/// row, whole rows, and the start of a row, for every dimension. Pure; the run must lie in the
/// tensor.
std::vector<RunBox> boxes_of_run(std::span<const std::int64_t> shape, std::int64_t offset,
                                 std::int64_t count);

}  // namespace autolaunch
