#pragma once
#include "base/environment.hpp"
#include "stage_out/out_folder.hpp"
#include "stage_out/out_target.hpp"

#include <functional>
#include <string>

namespace autolaunch::launcher {

struct OutCopyRequest {
    const OutFolder& folder;
    OutEntry entry;
    OutCounters& counters;
    std::function<void(const std::string&)> note;       ///< what is left out on purpose, in a line
    std::function<void(std::int64_t bytes)> will_copy;  ///< all that is to come to the target
    bool removes = true;  ///< what was copied here; not of a job that is to come back
    int threads = 4;      ///< files at the same time
};

/// Copies all of an entry's files to its target, and when all are there and durable, removes them
/// here. What is there already with the same content is not written again; what is there with
/// another content stays, unless this very folder copied it there before, or the user lets it be
/// replaced. May be killed at any moment, and called again. Throws nothing: what goes wrong is in
/// the result. Blocks: as the target does.
OutDone copy_out(const OutCopyRequest& request, const Environment& environment);

}  // namespace autolaunch::launcher
