#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Pieces of a file that lie side by side, in units of kPieceBytes.
struct PieceRun {
    std::uint32_t first = 0, count = 0;
    bool operator==(const PieceRun&) const = default;
};

/// A file on a shared file system, as it was when somebody looked. Two that are equal have the same
/// bytes, as far as times of change tell.
struct SharedFile {
    std::string path;
    std::int64_t bytes = 0;
    std::int64_t mtime_ns = 0;
    unsigned mode = 0;                  ///< who may read, write and execute it
    std::vector<PieceRun> pieces = {};  ///< that are handed over, ascending; none: all of it
    bool operator==(const SharedFile&) const = default;

    bool is_in_pieces() const { return !pieces.empty(); }
};

/// How much of a file a node would read there by itself.
struct FileUse {
    struct Part {
        std::int64_t offset = 0, bytes = 0;
    };
    std::string path;
    std::vector<Part> parts;  ///< in any order; they may overlap
};

/// What is read at once, and of a whole file sent and verified at once.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
/// What is sent and verified at once of a file in pieces.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 16;

/// How many chunks a file has, each of which has a digest: of kChunkBytes, or of kPieceBytes with a
/// file in pieces. One that is empty has none. Pure.
std::size_t chunks_of(const SharedFile& file);
/// Of the last chunk there may be less. Pure.
std::size_t chunk_bytes(const SharedFile& file, std::size_t chunk);
std::int64_t chunk_offset(const SharedFile& file, std::size_t chunk);
/// How much of it is handed over. Pure.
std::int64_t wanted_bytes(const SharedFile& file);
/// Which of its chunks these are, ascending. Pure.
std::vector<std::size_t> wanted_chunks(const SharedFile& file);

/// The pieces that hold `parts`, and what lies between two of them where reading through it costs
/// less than another request; none where most of the file, or a small one, is used: then it is
/// handed over whole. Pure.
std::vector<PieceRun> pieces_of(const std::vector<FileUse::Part>& parts, std::int64_t bytes);
/// Every byte of it once. Pure.
std::int64_t used_bytes(const std::vector<FileUse::Part>& parts);

/// Whether to read all of it once costs at most half of what it costs to have `nodes` read what
/// they use. Pure.
bool is_worth_it(std::int64_t bytes, std::int64_t used_bytes, int nodes);

/// As the file system says now; nothing where there is no regular file.
std::optional<SharedFile> look_at(const std::string& path);
/// Whether it still is what somebody has seen.
bool is_unchanged(const SharedFile& file);
/// All of them, many at once: each may take as long as a server does to answer. In the same order.
std::vector<std::optional<SharedFile>> look_at_all(const std::vector<std::string>& paths);

/// Whom the node in this place gets its bytes from: its parent in a binary tree, and in case that
/// one fails, those above it, up to place 0, which reads them. Empty for that one. Pure.
std::vector<int> places_above(int place);

/// One line of JSON, and its reader, which throws Error{corrupt}. Pure.
std::string as_manifest(const std::vector<SharedFile>& files);
std::vector<SharedFile> parse_manifest(const std::string& text);

}  // namespace autolaunch::launcher
