#pragma once
#include "base/stream_listing.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace autolaunch::data {

/// A part of the job's data that may still come to this node, as the launcher has listed it.
///
/// Owner: one. Threads: any, once it is made. Blocks: while the local disk does.
class Stream {
public:
    /// The one that a path, or a pattern, is in, by AUTOLAUNCH_STREAMS; nothing: in none. Throws
    /// Error{corrupt} and SystemError where its listing cannot be read.
    static std::optional<Stream> of(const std::filesystem::path& path);

    /// What its files' paths begin with.
    const std::filesystem::path& tree() const { return tree_; }
    const StreamListing& listing() const { return listing_; }
    /// The size that a file will have, also by a link that is there already; nothing: none comes.
    std::optional<std::uint64_t> bytes_of(const std::filesystem::path& path) const;
    /// Why nothing comes any more.
    std::optional<StreamFailure> failure() const;

private:
    Stream() = default;

    std::filesystem::path root_, tree_;
    StreamListing listing_;
    std::map<std::string, std::uint64_t> bytes_;
};

/// As await_file(); Error{aborted} once `stop` is set.
double await_file(const std::filesystem::path& path, std::chrono::milliseconds patience,
                  const std::atomic<bool>& stop);

}  // namespace autolaunch::data
