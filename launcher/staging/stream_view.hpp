#pragma once
#include "base/unique_fd.hpp"
#include "stage_cache/tree.hpp"
#include "staging/check_digests.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What ranks see of data that still comes: a folder in which each file appears under its name once
/// it is whole and has the digest that the spec says, in the order of the tree; and beside it the
/// listing of all that will be there. Files are linked from where they were written, so that it
/// costs no room, and stays as it is when that place is renamed or removed.
///
/// Owner: one. Threads: add() any, the others one. Blocks: while the local disk does, and add()
/// while a file is read for its digest.
class StreamView {
public:
    /// Makes `folder`, which must not be there, with folders and links of the tree and the listing.
    /// Throws ExitError 65 as DigestCheck, and SystemError.
    StreamView(std::filesystem::path folder, const Tree& tree, const std::string& verify,
               const std::string& shown);
    StreamView(const StreamView&) = delete;
    StreamView& operator=(const StreamView&) = delete;

    /// Below which files are.
    std::filesystem::path tree_path() const { return folder_ / "tree"; }
    /// What ranks are given: that, or the one file.
    std::filesystem::path path() const;

    /// A file is whole at `path` below `at` (or AT_FDCWD), and stays there until finish(). What is
    /// here already is passed over. Throws ExitError 65 for another digest, and SystemError.
    void add(const TreeEntry& entry, int at, const std::string& path);
    /// All files are below that folder, and were compared before.
    void add_all(int at);
    /// All were added: its folders are read-only from now on. Throws Error where one is missing.
    void finish();

private:
    struct Place {
        int at = -1;
        std::string path;
    };
    void compare(const TreeEntry& entry, const Place& place) const;
    void show_next();

    const std::filesystem::path folder_;
    const Tree tree_;
    DigestCheck digests_;
    UniqueFd view_;
    std::map<std::string, std::size_t> places_;  ///< in the tree, of each file
    std::mutex mutex_;
    std::map<std::size_t, Place> whole_;     ///< and compared, and not shown yet
    std::map<std::size_t, Place> unjudged_;  ///< that wait for the list of digests
    std::size_t next_ = 0;                   ///< of the tree's entries, to be shown
};

}  // namespace autolaunch::launcher
