#pragma once
#include "base/environment.hpp"
#include "stage_out/out_folder.hpp"
#include "stage_out/out_words.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Copies entries of a job's folder, one after the other, and says what comes of it, and once a
/// second how far it is. Where the target of one says nothing for a minute, or the order's time is
/// over, that is said as a failure, its threads are left to themselves, and the next one has its
/// turn. True: there are such. They hang with a dead file system, and end with the process, by
/// _exit().
///
/// Threads: it starts others, and `say` is called by one at a time. Blocks: until all is done.
bool copy_job(const std::shared_ptr<const OutFolder>& folder, const std::vector<std::string>& names,
              bool removes, const Environment& environment,
              const std::function<void(const OutWord&)>& say);

}  // namespace autolaunch::launcher
