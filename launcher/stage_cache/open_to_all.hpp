#pragma once
#include "stage_cache/tree_walk.hpp"

namespace autolaunch::launcher {

/// Whether every user of this machine can read a source where it lies: files r, folders r and x for
/// group and others, without an access list that could say otherwise, below folders that all may
/// pass. Throws ExitError 65, which names the first that is not so; access lists of NFSv4 and of
/// servers' own are not seen from here. Blocks: as the file system does.
void require_open_to_all(const SourceTree& source);

}  // namespace autolaunch::launcher
