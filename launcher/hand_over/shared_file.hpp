#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A file on a shared file system, as it was when somebody looked. Two that are equal have the same
/// bytes, as far as times of change tell.
struct SharedFile {
    std::string path;
    std::int64_t bytes = 0;
    std::int64_t mtime_ns = 0;
    unsigned mode = 0;  ///< who may read, write and execute it
    bool operator==(const SharedFile&) const = default;
};

/// How much of a file a node would read there by itself.
struct FileUse {
    std::string path;
    std::int64_t used_bytes = 0;
};

/// What is read, sent and verified at once.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

/// How many chunks a file has; one that is empty has none. Pure.
std::size_t chunks_of(const SharedFile& file);
/// Of the last chunk there may be less. Pure.
std::size_t chunk_bytes(const SharedFile& file, std::size_t chunk);

/// Whether to read all of it once costs at most half of what it costs to have `nodes` read what
/// they use. Pure.
bool is_worth_it(std::int64_t bytes, std::int64_t used_bytes, int nodes);

/// As the file system says now; nothing where there is no regular file.
std::optional<SharedFile> look_at(const std::string& path);
/// All of them, many at once: each may take as long as a server does to answer. In the same order.
std::vector<std::optional<SharedFile>> look_at_all(const std::vector<std::string>& paths);

/// Whom the node in this place gets its bytes from: its parent in a binary tree, and in case that
/// one fails, those above it, up to place 0, which reads them. Empty for that one. Pure.
std::vector<int> places_above(int place);

/// One line of JSON, and its reader, which throws Error{corrupt}. Pure.
std::string as_manifest(const std::vector<SharedFile>& files);
std::vector<SharedFile> parse_manifest(const std::string& text);

}  // namespace autolaunch::launcher
