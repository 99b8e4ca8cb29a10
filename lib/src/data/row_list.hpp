#pragma once
#include "data/permutation.hpp"
#include "data/windows.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace autolaunch::data {

/// The endless list of rows, epoch after epoch. Pure but for what it keeps of the last epoch that
/// it was asked about: two numbers a shard. Threads: one.
class RowList {
public:
    RowList(Windows windows, Order order, std::uint64_t seed);

    std::int64_t rows_per_epoch() const { return windows_.count(); }
    /// Where row `row` >= 0 lies.
    void find(std::int64_t row, std::vector<Piece>& pieces);

private:
    void arrange(std::int64_t epoch);
    std::int64_t shuffled(std::size_t place, std::int64_t window);

    Windows windows_;
    Order order_;
    std::uint64_t seed_;
    std::int64_t epoch_ = -1;          // that is arranged
    std::vector<std::size_t> shards_;  // in their order, but for those without windows
    std::optional<std::pair<std::size_t, Permutation>> within_;  // of the shard at a place
    std::vector<std::int64_t> before_;  // rows of the epoch before each, and their end
};

}  // namespace autolaunch::data
