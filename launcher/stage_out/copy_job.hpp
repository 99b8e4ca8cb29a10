#pragma once
#include "base/environment.hpp"
#include "stage_out/out_folder.hpp"
#include "stage_out/out_words.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Copies entries of a job's folder, one after the other, and says what comes of it: once a second,
/// from a thread of its own, how far it is. Where the target says nothing for a minute, or the
/// order's time is over, that is said as a failure and `give_up` ends the process: a thread that
/// hangs with a dead file system cannot be ended otherwise.
///
/// Threads: it starts others. Blocks: until all is done.
void copy_job(const OutFolder& folder, const std::vector<std::string>& names, bool removes,
              const Environment& environment, const std::function<void(const OutWord&)>& say,
              const std::function<void()>& give_up);

}  // namespace autolaunch::launcher
