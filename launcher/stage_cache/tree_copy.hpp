#pragma once
#include "stage_cache/tree.hpp"
#include "stage_cache/tree_files.hpp"
#include "stage_cache/tree_walk.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// How far a copy is; any thread may look.
struct CopyProgress {
    std::atomic<std::int64_t> bytes{0}, files{0};
    std::atomic<std::int64_t> found_bytes{0};  ///< of them: here since an attempt that was ended
    std::atomic<std::int64_t> read_bytes{0};   ///< of them: from the source itself
    /// That should have been compared with a checksum of their server's, which has none.
    std::atomic<std::int64_t> unchecked_files{0};
};

struct CopyOptions {
    int threads = 4;                    ///< files at the same time
    std::int64_t bytes_per_second = 0;  ///< of all threads together; 0: as fast as it goes
    bool may_resume = true;             ///< what is there already counts, if it is whole
    /// A copy that has come otherwise, from another node; it is linked into the tree.
    std::function<std::optional<FileHere>(const TreeEntry&)> find_here = {};
    /// A file is whole below `into`, with its last mode and its digest; by any thread, once for
    /// each file. What it throws ends the copy.
    std::function<void(const TreeEntry& entry, int into)> on_whole = {};
    std::string first = {};  ///< the file that is read before the others; empty: as they are listed
};

/// Whether nothing of the source is needed for a file: it has come otherwise, was whole in an
/// earlier attempt, or is empty. Its digest is filled in then.
bool is_here(const TreeFiles& files, TreeEntry& entry, const CopyOptions& options,
             CopyProgress& progress);

/// Copies all of a source into an empty folder, or into one that an earlier call did not fill, and
/// fills in the digests. Nothing is synced. Throws ExitError 66 where the source cannot be read or
/// has changed since it was listed, and SystemError (ENOSPC, …) where nothing can be written.
/// Blocks: until all is there or one failed.
void copy_tree(SourceTree& source, int into, const std::string& into_shown,
               const CopyOptions& options, CopyProgress& progress);

/// Throws ExitError 66 where an open file of a source is not as it was when it was looked at.
void check_unchanged(int fd, const TreeEntry& entry, const std::string& shown);
/// Throws ExitError 66, which names the file.
[[noreturn]] void was_changed(const std::string& shown);

/// After copy_tree(): nobody may write there any more. Returns how it all looks.
std::vector<Mark> finish_tree(int into, const Tree& tree);

/// The digest of a file's chunks of 1 MiB, as the agents hand files on: XXH3-128 over the digests
/// of the chunks, 16 bytes each.
class ChunkedDigest {
public:
    static constexpr std::size_t kChunk = std::size_t{1} << 20;
    void add(const void* chunk, std::size_t bytes);  ///< kChunk, or what is left
    Digest128 value() const;

private:
    std::vector<Digest128> chunks_;
};

/// Of an open file. Throws SystemError.
Digest128 digest_of_file(int fd, const std::string& shown);

}  // namespace autolaunch::launcher
