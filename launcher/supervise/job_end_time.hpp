#pragma once
#include "allocation/time_left_query.hpp"
#include "plan/launch_plan.hpp"
#include "spawn/command_wait.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What was learned of the allocation's end.
struct JobTimes {
    std::optional<std::chrono::system_clock::time_point>
        ends_at;            ///< nothing: no limit, or unknown
    std::string limit;      ///< squeue's word for it, where it was asked and has answered
    bool answered = false;  ///< by the environment or by squeue
};

/// When Slurm is asked again: an operator may give the job more time, or less. The nearer the end
/// the more often: a tenth of what is left, 15 s at least and 5 min at most. Pure.
std::chrono::milliseconds time_until_next_look(
    const std::optional<std::chrono::system_clock::time_point>& ends_at,
    std::chrono::system_clock::time_point now);

/// Where squeue has answered, when the limit ends. Behind it squeue has no number for what is left,
/// or 0, though Slurm may let the job run on (OverTimeLimit): then what was `known` stays. Nothing:
/// there is no limit. Pure.
std::optional<std::chrono::system_clock::time_point> end_told(
    const std::optional<std::chrono::seconds>& left, const std::string& limit,
    const std::optional<std::chrono::system_clock::time_point>& known,
    std::chrono::system_clock::time_point now);

/// Learns when the job's allocation ends: from the plan where the environment said it, else from
/// Slurm; then from Slurm again and again. No job waits for it, or fails without it.
///
/// Owner: the StopPlanner. Threads: the one that runs the context. Blocks: as TimeLeftQuery.
class JobEndTime {
public:
    using Handler = std::function<void(const JobTimes&)>;

    /// All must outlive it.
    JobEndTime(asio::io_context& io, const LaunchPlan& plan, Handler on_known);

    /// Calls the handler, at once or later, also where nothing was learned, and later each time
    /// that Slurm was asked. Does nothing when called again.
    void find_out();
    /// Slurm is asked now, and the handler is called once more, within `patience`.
    void look_now(std::chrono::milliseconds patience);
    /// Nobody wants to know any more: the handler will not be called, and no squeue is left.
    void stop();

private:
    void ask(std::chrono::milliseconds patience);
    void look_later();

    const LaunchPlan& plan_;
    Handler on_known_;
    std::optional<TimeLeftQuery> query_;  ///< while it is under way
    CommandWait wait_;
    asio::steady_timer next_look_;
    std::optional<std::chrono::system_clock::time_point> ends_at_;
    bool asked_ = false;
};

}  // namespace autolaunch::launcher
