#pragma once
#include <autolaunch/data/token_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::data {

/// A run of tokens of one shard.
struct Piece {
    std::size_t shard = 0;
    std::int64_t first = 0;  ///< token of the shard
    std::int64_t count = 0;

    bool operator==(const Piece&) const = default;
};

/// The windows of an epoch, by shard. Pure; TokenReader's comment has the formulas.
class Windows {
public:
    /// `tokens` of each shard, and names for errors. Throws Error{invalid_argument} for a data set
    /// that is too short, or with Boundary::separate and ::drop_tail a shard.
    Windows(const std::vector<TokenShard>& shards, std::int64_t length, std::int64_t global_batch,
            Boundary boundary);

    std::int64_t count() const { return first_window_.back(); }
    std::size_t shard_count() const { return first_window_.size() - 1; }
    std::int64_t count_of(std::size_t shard) const {
        return first_window_[shard + 1] - first_window_[shard];
    }
    /// Where a shard's window lies: length + 1 tokens in all, in their order.
    void find(std::size_t shard, std::int64_t window, std::vector<Piece>& pieces) const;

private:
    std::int64_t windows_that_begin_before(std::int64_t token) const;
    std::int64_t windows_within(const TokenShard& shard, std::int64_t global_batch) const;

    std::int64_t length_;
    Boundary boundary_;
    std::vector<std::int64_t> first_token_;   // of each shard in all of them joined, and their end
    std::vector<std::int64_t> first_window_;  // likewise
};

}  // namespace autolaunch::data
