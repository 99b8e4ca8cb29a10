#pragma once
#include "data/token_header.hpp"

#include <autolaunch/data/token_reader.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace autolaunch::data {

/// Which files of a data set are there, of one that still comes: each is looked into when it is.
///
/// Owner: the reader. Threads: any. Blocks: await(), until its file is there.
class Arrivals {
public:
    /// `like`: what the first file says of itself, as all others have to.
    Arrivals(std::vector<TokenShard> shards, Format format, TokenHeader like,
             std::chrono::milliseconds patience);

    /// Before anything is read of that file. Throws as await_file(), Error{corrupt} and
    /// Error{mismatch} where it is not what it was to be, and Error{aborted} once `stop` is set.
    void await(std::size_t shard, const std::atomic<bool>& stop);
    /// Whether that would not wait.
    bool is_there(std::size_t shard) const;
    /// All were looked into.
    bool is_complete() const { return unseen_ == 0; }
    std::size_t still_to_come() const;

    /// XXH3-64 of its first kBeginningBytes; nothing: nobody has seen them yet.
    std::optional<std::uint64_t> beginning(std::size_t shard) const;
    void set_beginning(std::size_t shard, std::uint64_t beginning);
    /// A state that is gone on from has seen them so.
    void expect(std::size_t shard, std::uint64_t beginning);

private:
    struct Seen {
        std::optional<std::uint64_t> beginning, expected;
    };
    const std::vector<TokenShard> shards_;
    const Format format_;
    const TokenHeader like_;
    const std::chrono::milliseconds patience_;
    std::atomic<std::size_t> unseen_;
    mutable std::mutex mutex_;
    std::vector<Seen> seen_;
};

}  // namespace autolaunch::data
