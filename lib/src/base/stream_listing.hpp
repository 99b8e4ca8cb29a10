#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

// How ranks are told of data that comes while they run; docs/stage-cache.md has both texts, byte by
// byte. In the folder AUTOLAUNCH_STREAMS: NAME/listing, NAME/tree, and `failed` once there will be
// no more.

inline constexpr char kStreamListing[] = "listing";
inline constexpr char kStreamTree[] = "tree";
inline constexpr char kStreamFailed[] = "failed";
inline constexpr std::size_t kMostStreamListing = std::size_t{1} << 30;
inline constexpr std::size_t kMostStreamFailure = std::size_t{1} << 16;

/// What will be there under one name: files, in the order in which they come.
struct StreamListing {
    struct File {
        std::string path;  ///< below the folder, without "." and ".."; of one file its name
        std::uint64_t bytes = 0;
        bool operator==(const File&) const = default;
    };
    bool is_file = false;
    std::vector<File> files;
    bool operator==(const StreamListing&) const = default;
};
AUTOLAUNCH_API std::string as_text(const StreamListing& listing);
/// Throws Error{corrupt} for any other text. Pure.
AUTOLAUNCH_API StreamListing parse_stream_listing(std::string_view text);

/// Why no more comes.
struct StreamFailure {
    std::string what, hint;
    bool operator==(const StreamFailure&) const = default;
};
AUTOLAUNCH_API std::string as_text(const StreamFailure& failure);
/// Nothing for any other text. Pure.
AUTOLAUNCH_API std::optional<StreamFailure> parse_stream_failure(std::string_view text);

}  // namespace autolaunch
