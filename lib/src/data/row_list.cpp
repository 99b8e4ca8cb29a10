#include "data/row_list.hpp"

#include <algorithm>

namespace autolaunch::data {

RowList::RowList(Windows windows, Order order, std::uint64_t seed)
    : windows_(std::move(windows)), order_(order), seed_(seed) {}

void RowList::arrange(std::int64_t epoch) {
    const Permutation order(windows_.shard_count(),
                            key_of(seed_, static_cast<std::uint64_t>(epoch), 0));
    shards_.clear();
    before_.assign(1, 0);
    for (std::size_t i = 0; i < windows_.shard_count(); ++i) {
        const std::size_t shard = order_ == Order::shuffled ? order(i) : i;
        if (windows_.count_of(shard) == 0)
            continue;
        shards_.push_back(shard);
        before_.push_back(before_.back() + windows_.count_of(shard));
    }
    epoch_ = epoch;
    within_.reset();
}

void RowList::find(std::int64_t row, std::vector<Piece>& pieces) {
    const std::int64_t epoch = row / windows_.count();
    row %= windows_.count();
    if (epoch != epoch_)
        arrange(epoch);
    const auto place = static_cast<std::size_t>(
        std::upper_bound(before_.begin(), before_.end(), row) - before_.begin() - 1);
    const std::size_t shard = shards_[place];
    const std::int64_t window = row - before_[place];
    windows_.find(shard, order_ == Order::shuffled ? shuffled(place, window) : window, pieces);
}

std::int64_t RowList::shuffled(std::size_t place, std::int64_t window) {
    if (!within_ || within_->first != place) {
        const std::size_t shard = shards_[place];
        within_.emplace(place, Permutation(static_cast<std::uint64_t>(windows_.count_of(shard)),
                                           key_of(seed_, static_cast<std::uint64_t>(epoch_),
                                                  1 + static_cast<std::uint64_t>(shard))));
    }
    return static_cast<std::int64_t>(within_->second(static_cast<std::uint64_t>(window)));
}

}  // namespace autolaunch::data
