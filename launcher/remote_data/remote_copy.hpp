#pragma once
#include "remote_data/remote_source.hpp"
#include "stage_cache/stage_cache.hpp"
#include "stage_cache/tree_copy.hpp"

#include <string>

namespace autolaunch::launcher {

/// Brings a tree that was looked at into the folder of a part, and fills in the digests: parts of
/// files side by side, each over a connection that is used again. Chunks that an earlier attempt
/// has brought are read and compared, and not asked for again. Nothing is synced. Throws ExitError
/// as RemoteReader, SystemError where nothing can be written. Blocks: until all is there or one
/// failed.
void fetch_tree(const RemoteSource& source, Tree& tree, const StagePart& part,
                const CopyOptions& options, CopyProgress& progress);

/// The same into a folder `into`, with its journal in `beside`.
struct FetchPlace {
    int into = -1, beside = -1;
    std::string shown;  ///< of `into`
};
void fetch_tree(const RemoteSource& source, Tree& tree, const FetchPlace& place,
                const CopyOptions& options, CopyProgress& progress);

}  // namespace autolaunch::launcher
