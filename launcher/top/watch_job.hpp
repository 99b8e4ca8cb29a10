#pragma once
#include "report/charset.hpp"
#include "top/job_model.hpp"
#include "top/run_source.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct WatchOptions {
    bool replay = false;  ///< from its beginning, as of a run that is over
    bool colours = false;
    Charset charset = Charset::utf8;
    /// Why what the files say may not be so any more; empty: nothing says so. Asked now and then.
    std::function<std::string()> doubt = [] { return std::string(); };
};

/// How the job is now, once.
JobView look_at_job(RunSource& source, JobModel model, const WatchOptions& options);

/// The screen of a job, once a second anew, until somebody quits. Throws Error where there is no
/// terminal for it, and of its source.
void watch_job(RunSource& source, JobModel model, const WatchOptions& options);

}  // namespace autolaunch::launcher
