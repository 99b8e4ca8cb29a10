#pragma once
#include "remote_data/remote_source.hpp"
#include "stage_cache/tree_walk.hpp"

#include <memory>

namespace autolaunch::launcher {

/// Files of a file system, read as those of a server are: in ranges, one file after the other, by
/// several at once. `source` must outlive it. Throws ExitError 66 where a file cannot be read, or
/// is not as it was when it was looked at.
std::unique_ptr<RemoteSource> local_files(const SourceTree& source);

}  // namespace autolaunch::launcher
