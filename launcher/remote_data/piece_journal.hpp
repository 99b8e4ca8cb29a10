#pragma once
#include "base/unique_fd.hpp"
#include "stage_cache/stage_part.hpp"

#include <autolaunch/digest.hpp>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Which chunks of 1 MiB of a tree's files are on this disk already: a file beside the tree,
/// written behind each chunk (docs/stage-cache.md). What it says is compared with the chunk before
/// it counts, so that a journal that is torn or wrong costs only time. It goes when the tree is
/// published.
///
/// Owner: who fills the tree. Threads: add() any. Blocks: while the disk does.
class PieceJournal {
public:
    static constexpr const char* kName = kPieces;

    /// Reads what an earlier attempt has left in that folder. Throws SystemError.
    PieceJournal(int folder, std::string shown);

    /// Of the chunk of a file, by its place in the tree.
    std::optional<Digest128> find(std::uint32_t file, std::uint32_t chunk) const;
    void add(std::uint32_t file, std::uint32_t chunk, const Digest128& digest);
    /// Of a file that is whole, and was compared with nothing that its server has of it.
    void note_unchecked(std::uint32_t file) { add(file, kNoChunk, {}); }
    bool was_unchecked(std::uint32_t file) const { return find(file, kNoChunk).has_value(); }

private:
    static constexpr std::uint32_t kNoChunk = 0xFFFFFFFF;  ///< behind those of the largest file
    struct Record {
        std::uint64_t place = 0;  ///< file and chunk
        Digest128 digest;
    };
    void load();

    const std::string shown_;
    std::vector<Record> found_;  ///< by place
    UniqueFd file_;
    std::mutex mutex_;
};

}  // namespace autolaunch::launcher
