#include "data/windows.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::data {

Windows::Windows(const std::vector<TokenShard>& shards, std::int64_t length,
                 std::int64_t global_batch, Boundary boundary)
    : length_(length), boundary_(boundary), first_token_{0}, first_window_{0} {
    for (const TokenShard& shard : shards)
        first_token_.push_back(first_token_.back() + shard.tokens);
    if (first_token_.back() <= length)
        throw Error(ErrorCode::invalid_argument,
                    "the data has " + std::to_string(first_token_.back()) +
                        " tokens in all, and a window of length " + std::to_string(length) +
                        " takes " + std::to_string(length + 1));
    for (std::size_t i = 0; i < shards.size(); ++i)
        first_window_.push_back(boundary == Boundary::join
                                    ? windows_that_begin_before(first_token_[i + 1])
                                    : first_window_[i] + windows_within(shards[i], global_batch));
}

// ceil(token / T), but no window begins at the last token or behind it.
std::int64_t Windows::windows_that_begin_before(std::int64_t token) const {
    const std::int64_t all = (first_token_.back() - 1 + length_ - 1) / length_;
    return std::min(all, token / length_ + (token % length_ > 0 ? 1 : 0));
}

std::int64_t Windows::windows_within(const TokenShard& shard, std::int64_t global_batch) const {
    const bool drops = boundary_ == Boundary::drop_tail;
    const std::int64_t least = drops ? global_batch * length_ : length_;
    if (shard.tokens <= least)
        throw Error(ErrorCode::invalid_argument,
                    shard.path.string() + " has " + std::to_string(shard.tokens) + " tokens, and " +
                        (drops ? "a global batch of " + std::to_string(global_batch) + " rows"
                               : "a window") +
                        " of length " + std::to_string(length_) + " takes " +
                        std::to_string(least + 1),
                    "Boundary::join takes shards of any size");
    return drops ? (shard.tokens - 1) / least * global_batch
                 : (shard.tokens - 1 + length_ - 1) / length_;
}

void Windows::find(std::size_t shard, std::int64_t window, std::vector<Piece>& pieces) const {
    pieces.clear();
    if (boundary_ != Boundary::join) {
        const std::int64_t tokens = first_token_[shard + 1] - first_token_[shard];
        pieces.push_back({shard, std::min(window * length_, tokens - 1 - length_), length_ + 1});
        return;
    }
    std::int64_t token =
        std::min((first_window_[shard] + window) * length_, first_token_.back() - 1 - length_);
    std::int64_t left = length_ + 1;
    while (token < first_token_[shard])
        --shard;  // the last window of all may begin before where its number says
    for (; left > 0; ++shard) {
        const std::int64_t count = std::min(left, first_token_[shard + 1] - token);
        if (count <= 0)
            continue;  // a shard without tokens
        pieces.push_back({shard, token - first_token_[shard], count});
        token += count;
        left -= count;
    }
}

}  // namespace autolaunch::data
