#pragma once
#include "base/unique_fd.hpp"
#include "stage_cache/tree.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A tree that is whole, and that nobody removes while this lives, or a copy of its descriptor in
/// another process does: the kernel lets go of it when a process is killed.
struct HeldTree {
    UniqueFd lock;               ///< of its folder, flock(2)
    std::string name;            ///< in the cache: its address, maybe with a number behind
    std::filesystem::path path;  ///< what jobs are given: the folder, or the one file
    std::int64_t bytes = 0, files = 0;
    bool is_shared = false;  ///< of the site's cache, which is another user's
};

// What the cache of a user and that of a site have in common (docs/stage-cache.md).

/// What `sources/KEY` says.
struct StagedSource {
    std::string name;         ///< of the tree
    std::string from;         ///< what was asked for, as errors name it
    std::int64_t keep_s = 0;  ///< after its last use; 0: nobody has said
};
/// Nothing for any other text. Pure.
std::optional<StagedSource> parse_source_text(std::string_view text);
std::string source_text(const StagedSource& source);

/// Whether a folder's name in `data` can be one of a tree's. Pure.
bool is_tree_name(const std::string& name);

/// Takes the lock of a tree's folder, as all who use it do. False: somebody has kept it to himself
/// for as long as nobody has to who only looks; or it is not the folder of that name any more.
bool take_tree(int data, const std::string& name, int folder);

/// `data` is where the folder is that the lock is of. Throws Error{corrupt}.
HeldTree held_tree(UniqueFd lock, const std::string& name, const std::filesystem::path& data);
/// Its last use is now: while it is used, and at the end of it. Of a site's by who reads there, to
/// a day.
void mark_used(const HeldTree& held);
/// Of a held one. Throws Error{corrupt} where the text is damaged.
Tree manifest_of(const HeldTree& held);
/// Empty, or how it differs from what was published. With `owner` all of it has to be his, and
/// nobody else may be able to write there.
std::string why_unusable(const HeldTree& held, std::optional<uid_t> owner = {});

}  // namespace autolaunch::launcher
