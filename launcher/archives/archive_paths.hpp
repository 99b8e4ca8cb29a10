#pragma once
#include "stage_cache/tree.hpp"

#include <cstddef>
#include <map>
#include <string>

namespace autolaunch::launcher {

/// An entry of an archive as it says itself, before anything of it is believed.
struct ArchivedEntry {
    enum class Kind { file, folder, link, hard_link, other };
    std::string path;  ///< as written there
    Kind kind = Kind::other;
    std::string target;  ///< of both kinds of links
    unsigned mode = 0;
    std::int64_t bytes = 0, mtime_ns = 0;
    bool knows_bytes = true, is_encrypted = false;
};

/// What an archive may put where: below one folder, each path once, nothing through a link.
/// Decides, and touches nothing.
///
/// Owner: who unpacks. Threads: one.
class ArchivePaths {
public:
    explicit ArchivePaths(std::string shown) : shown_(std::move(shown)) {}

    struct Placed {
        TreeEntry entry;                       ///< its path is within the tree
        std::vector<std::string> new_folders;  ///< above it, that no entry has named yet
        bool is_to_make = true;  ///< false: the tree's own folder, or one that is there
        std::string same_as;     ///< of a hard link: the file, which is there
    };
    /// Throws ExitError 65, with the archive's name, the entry's and its number: paths that are
    /// absolute or have "..", links that lead out, devices, pipes, files with setuid or setgid,
    /// what is encrypted, the same path twice, a path below a file or a link.
    Placed place(const ArchivedEntry& entry);
    /// 65, of the entry that was placed last.
    [[noreturn]] void refuse(const std::string& why, const std::string& hint) const;

private:
    void check_parents(const std::string& path, Placed& placed);

    const std::string shown_;
    std::size_t number_ = 0;
    std::string last_;
    std::map<std::string, TreeEntry::Kind> known_;
};

}  // namespace autolaunch::launcher
