#pragma once
#include "stage_cache/stage_cache.hpp"
#include "stage_cache/tree_copy.hpp"
#include "stage_cache/tree_walk.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct StagingRequest {
    std::string key;  ///< of the source as it was walked
    StageCache::Wish wish = {};
    CopyOptions copy;
    std::int64_t bytes_here = 0;  ///< on this disk already, to be linked
    /// Where the source is none of files that can be opened: fills the part's folder, and the
    /// tree's digests.
    std::function<void(StagePart& part, SourceTree& source, const CopyOptions& options,
                       CopyProgress& progress)>
        fill = {};
    /// Of what was copied, before it counts: throws where it is not what it should be.
    std::function<void(int folder, const Tree& tree)> verify = {};
    /// Throws where the source is not as it was any more.
    std::function<void()> check_source = {};
    /// While another process writes the same: throws to give up.
    std::function<void()> wait = {};
};

struct StagedTree {
    HeldTree held;
    bool was_here = false;           ///< nothing was copied
    std::vector<std::string> notes;  ///< what went otherwise than wished
};

/// Has the cache hold that source: what is there already, else a copy, made once however many
/// processes ask for it at a time. Where it fails, nothing is left but what a further attempt goes
/// on with. Throws ExitError: 66 and 65 as walk_source() and `verify`, 73 where there is no room;
/// 69 and 77, as `fill`, leave what has come. Blocks: until it is there.
StagedTree stage_tree(StageCache& cache, SourceTree& source, const StagingRequest& request,
                      CopyProgress& progress);

}  // namespace autolaunch::launcher
