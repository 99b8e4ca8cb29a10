#pragma once
#include "data/row_list.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace autolaunch::data {

/// Bytes of a file that follow each other.
struct Extent {
    std::size_t shard = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool operator==(const Extent&) const = default;
};

/// A part of a row, in an extent.
struct RowPart {
    std::size_t extent = 0;
    std::uint64_t begin = 0;  ///< byte of the file
    std::uint64_t bytes = 0;
};

/// What is read for some rows: extents in the rows' order, and each row's parts in them. Rows that
/// follow each other in a file share an extent.
struct ReadPlan {
    std::vector<Extent> extents;
    std::vector<RowPart> parts;
    std::vector<std::size_t> first_part = {0};  ///< of each row, and the end

    std::size_t rows() const { return first_part.size() - 1; }
};

/// Adds rows [first, first + count) to a plan. Pure but for what `list` keeps.
void plan_reads(ReadPlan& plan, RowList& list, std::int64_t first, std::int64_t count,
                std::uint64_t header_bytes, std::uint64_t token_bytes);

}  // namespace autolaunch::data
