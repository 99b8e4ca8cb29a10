#pragma once
#include "base/unique_fd.hpp"
#include "hand_over/shared_file.hpp"

#include <autolaunch/digest.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What a folder of copies holds, and may hold at most.
struct CacheRoom {
    std::int64_t most = 0;
    std::atomic<std::int64_t> bytes{0};
};

/// Those pieces of one file that this node has: a file with holes, and beside it an index with the
/// digest of each piece, to which whoever has a piece appends (docs/hand-over-protocol.md). Pieces
/// only come; several processes may add at once, as what they add is the same. No byte leaves it
/// before it was compared with its digest, so neither a hole nor what a crash left is ever taken
/// for the file's.
///
/// Owner: shared. Threads: any. Blocks: while a disk is read or written.
class PieceStore {
public:
    /// In the folder of that descriptor, made where it is missing. Throws SystemError.
    PieceStore(int folder, const std::string& key, const SharedFile& file, CacheRoom& room);

    std::optional<Digest128> digest_of(std::size_t piece) const;
    /// False: it is not here, or damaged, and then not here from now on.
    bool read(std::size_t piece, std::string& bytes);
    /// Throws SystemError, ENOSPC also where the folder may hold no more.
    void put(std::size_t piece, const Digest128& digest, std::string_view bytes);
    const SharedFile& file() const { return file_; }

private:
    void read_index();

    SharedFile file_;
    CacheRoom& room_;
    UniqueFd bytes_, index_;
    mutable std::mutex mutex_;
    std::map<std::size_t, Digest128> digests_;
};

/// The two names of a store.
std::string piece_file_name(const std::string& key);
std::string piece_index_name(const std::string& key);

}  // namespace autolaunch::launcher
