#pragma once
#include "base/unique_fd.hpp"
#include "stage_cache/tree.hpp"

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// A file that is on this disk already, with the digest that it was verified by.
struct FileHere {
    std::string path;
    Digest128 digest;
};

/// The files of a tree that is being written, below one folder that is this process's alone. A
/// file's mode is its last: one that has it is whole. Errors are SystemError, which name the file.
///
/// Owner: who fills the tree. Threads: any, each with files of its own. Blocks: while the disk
/// does.
class TreeFiles {
public:
    TreeFiles(int into, std::string shown) : into_(into), shown_(std::move(shown)) {}

    std::string shown(const TreeEntry& entry) const { return shown_ + '/' + entry.path; }
    void make_folders_and_links(const Tree& tree) const;

    // Three ways in which a file is there without being read; each fills in its digest.
    bool link(TreeEntry& entry, const FileHere& here) const;
    /// It was whole when an earlier attempt was ended.
    bool find_whole(TreeEntry& entry) const;
    void make_empty(TreeEntry& entry) const;

    /// A new one, in the place of whatever is there, with its room on the disk.
    UniqueFd make(const TreeEntry& entry) const;
    /// What an earlier attempt has begun; none where there is nothing of that size.
    UniqueFd open_begun(const TreeEntry& entry) const;
    void write(int fd, const TreeEntry& entry, const char* bytes, std::size_t count,
               std::int64_t at) const;
    /// Last: its time and mode.
    void dress(int fd, const TreeEntry& entry) const;

private:
    void reserve(int fd, const TreeEntry& entry) const;

    const int into_;
    const std::string shown_;
};

struct stat facts_of(int fd, const std::string& shown);

}  // namespace autolaunch::launcher
