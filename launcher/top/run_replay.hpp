#pragma once
#include "top/run_follower.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Shows a run at any moment of it. Goes forward by reading on, and back to the nearest place that
/// it has kept and on from there, so that no moment is further than a part of the files away.
///
/// Owner: watch_job(). Threads: one. Blocks: on its source; the first way to the end reads all of
/// the files.
class RunReplay {
public:
    /// Places that are kept: each is as large as the job has ranks.
    static constexpr int kPlaces = 100;

    /// `source` must outlive it. Throws Error{invalid_argument} where the run has no events.
    RunReplay(RunSource& source, JobModel model);

    ViewTime first() const { return first_; }
    ViewTime last() const { return last_; }
    /// Clamped to the run.
    JobView at(ViewTime moment);

private:
    /// Where lines of a node's samples are.
    struct SampleLinePlace {
        ViewTime time;
        std::uint64_t offset = 0;
        std::size_t bytes = 0;
    };
    void index_samples();
    void take_samples(ViewTime moment);

    RunSource& source_;
    RunFollower follower_;
    ViewTime first_, last_, now_;
    std::map<ViewTime, RunPlace> places_;
    std::map<std::string, std::vector<SampleLinePlace>> samples_;
};

}  // namespace autolaunch::launcher
