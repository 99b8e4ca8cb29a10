#pragma once
#include "base/deadline.hpp"
#include "spawn/child_host.hpp"

#include <asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A task of this node besides the agent's own.
struct LocalTask {
    int local_task = 0;
    pid_t pid = -1;  ///< of its stand-in
    std::map<std::string, std::string> environment;
    std::vector<int> cpus;  ///< that it may use
};

/// The agent's side of its node's stand-ins (docs/adr/0008-one-task-a-rank.md).
///
/// Owner: the agent; outlives the event loop's last handler. Threads: the main one. Blocks: the
/// constructor, start() of a host and end_offspring(), until their deadlines.
class StandIns {
public:
    struct Handlers {
        /// A signal reached that task, and not its rank; the scheduler sends the agent its own
        /// copy, as a rule.
        std::function<void(int local_task, int signal)> on_signal;
        /// The stand-in was killed, or hung up: no rank can be started there. Its rank, if it had
        /// one, has ended by then as if by SIGKILL, which the kernel sends it.
        std::function<void(int local_task)> on_lost;
    };

    /// Waits for tasks 1 to `task_count` - 1 of this node. Throws TimeoutError naming those that
    /// did not come, Error{closed} when `cancel_fd` becomes readable, and what listen_for_tasks()
    /// throws. The address is free again on return.
    StandIns(const std::string& address, int task_count, Deadline deadline, int cancel_fd);
    StandIns(const StandIns&) = delete;
    StandIns& operator=(const StandIns&) = delete;
    /// Those that were not told otherwise exit with 0.
    ~StandIns();

    /// By local task, from 1 up.
    const std::vector<LocalTask>& tasks() const { return tasks_; }
    /// From here on everything that stand-ins say is heard in `io`.
    void watch(asio::io_context& io, Handlers handlers);
    /// Starts ranks in that task, from 1 up.
    ChildHost& host(int local_task);
    const LocalTask& task(int local_task) const {
        return tasks_.at(static_cast<std::size_t>(local_task - 1));
    }
    /// Ends with SIGKILL what ranks that have ended left in their tasks. False when some of it is
    /// there at the deadline.
    bool end_offspring(Deadline deadline);
    /// The job is over: each task exits with 0, or, if its last rank failed by itself, with that
    /// rank's code, but none above the job's, since srun and mpirun take the highest for their own.
    void finish(int job_exit_code);

private:
    class Host;

    std::vector<LocalTask> tasks_;
    std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace autolaunch::launcher
