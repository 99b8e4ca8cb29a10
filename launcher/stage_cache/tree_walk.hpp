#pragma once
#include "base/unique_fd.hpp"
#include "stage_cache/tree.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// A source that was looked at, and the folder that its paths are below.
struct SourceTree {
    Tree tree;                ///< without digests
    UniqueFd folder;          ///< of a single file: where it is
    std::string only;         ///< of a single file: its name there, where links have led to
    std::string shown;        ///< for errors: what was asked for
    std::string folder_path;  ///< without links

    /// For reading; throws ExitError, which names the file.
    UniqueFd open(const TreeEntry& entry) const;
    std::string path_of(const TreeEntry& entry) const;
};

/// What is there. Links that lead to `path` itself are followed, those below it are not: one that
/// leads out of it, a device, a socket and a pipe are errors. Throws ExitError: 66 for what is not
/// there or cannot be read, 65 for what cannot be staged. `signs` grows while the file system
/// answers. Blocks: as that does.
SourceTree walk_source(const std::filesystem::path& path,
                       std::atomic<std::int64_t>* signs = nullptr);

}  // namespace autolaunch::launcher
