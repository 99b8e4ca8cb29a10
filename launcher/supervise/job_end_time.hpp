#pragma once
#include "allocation/time_left_query.hpp"
#include "plan/launch_plan.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace autolaunch::launcher {

/// Learns when the job's allocation ends: from the plan where the environment said it, else from
/// Slurm, which is asked once, beside the job. What cannot be learned is left out: no job waits for
/// it, or fails without it.
///
/// Owner: the JobSupervisor. Threads: the one that runs the context. Blocks: as TimeLeftQuery.
class JobEndTime {
public:
    using Handler = std::function<void(std::chrono::system_clock::time_point ends_at)>;

    /// All must outlive it.
    JobEndTime(asio::io_context& io, const LaunchPlan& plan, Handler on_known);

    /// Calls the handler once, at once or later, or never. Does nothing when called again: a squeue
    /// that did not answer is not asked again.
    void find_out();
    /// Nobody wants to know any more: the handler will not be called, and no squeue is left.
    void stop();

private:
    void await_answer();
    void take_answer();

    const LaunchPlan& plan_;
    Handler on_known_;
    std::optional<TimeLeftQuery> query_;  ///< while it is under way
    asio::posix::stream_descriptor answer_;
    asio::steady_timer timer_;
    bool asked_ = false;
};

}  // namespace autolaunch::launcher
