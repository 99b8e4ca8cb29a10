#include "data/arrivals.hpp"

#include "base/file_system.hpp"
#include "data/data_set.hpp"
#include "data/stream.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace autolaunch::data {

Arrivals::Arrivals(std::vector<TokenShard> shards, Format format, TokenHeader like,
                   std::chrono::milliseconds patience)
    : shards_(std::move(shards)),
      format_(format),
      like_(like),
      patience_(patience),
      unseen_(shards_.size()),
      seen_(shards_.size()) {}

std::optional<std::uint64_t> Arrivals::beginning(std::size_t shard) const {
    const std::scoped_lock lock(mutex_);
    return seen_[shard].beginning;
}

void Arrivals::set_beginning(std::size_t shard, std::uint64_t beginning) {
    const std::scoped_lock lock(mutex_);
    unseen_ -= seen_[shard].beginning ? 0 : 1;
    seen_[shard].beginning = beginning;
}

void Arrivals::expect(std::size_t shard, std::uint64_t beginning) {
    const std::scoped_lock lock(mutex_);
    seen_[shard].expected = beginning;
}

bool Arrivals::is_there(std::size_t shard) const {
    return is_complete() || beginning(shard).has_value() || path_exists(shards_[shard].path);
}

std::size_t Arrivals::still_to_come() const {
    std::size_t count = 0;
    for (std::size_t shard = 0; shard < shards_.size() && !is_complete(); ++shard)
        count += is_there(shard) ? 0 : 1;
    return count;
}

void Arrivals::await(std::size_t shard, const std::atomic<bool>& stop) {
    if (is_complete() || beginning(shard))
        return;
    const TokenShard& wanted = shards_[shard];
    await_file(wanted.path, patience_, stop);
    TokenShard found = wanted;
    const LookedInto seen = look_into(found, format_);
    if (seen.header.type != like_.type)
        throw Error(ErrorCode::mismatch,
                    wanted.path.string() + " has tokens of " + width_of(seen.header.type) +
                        ", and " + shards_.front().path.string() + " of " + width_of(like_.type),
                    "a data set is of one kind: name its files with a pattern");
    if (found.bytes != wanted.bytes || found.tokens != wanted.tokens)
        throw Error(ErrorCode::corrupt,
                    wanted.path.string() + " has " + std::to_string(found.bytes) +
                        " bytes, and was to have " + std::to_string(wanted.bytes));
    const std::scoped_lock lock(mutex_);
    Seen& its = seen_[shard];
    if (its.expected && *its.expected != seen.beginning)
        throw Error(
            ErrorCode::mismatch,
            "the reader cannot go on from this state: " + wanted.name +
                " begins with other bytes than it had",
            "bring the data back as it was, or begin anew with this one, without restore()");
    unseen_ -= its.beginning ? 0 : 1;
    its.beginning = seen.beginning;
}

}  // namespace autolaunch::data
