#pragma once
#include "doctor/check.hpp"

#include "base/deadline.hpp"
#include "spawn/helper_process.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Runs the checks of one node in child processes, one for each place where a check may get stuck,
/// side by side. A child that keeps a check longer than that check's limit is killed and, where
/// checks are left, replaced.
///
/// Owner: the caller; its destructor ends what still runs. Threads: one; the children are forked
/// from it, so no other thread should hold a lock of the C library. Blocks: wait() only, until its
/// deadline.
class CheckRunner {
public:
    static constexpr std::chrono::seconds kTotalLimit{10};

    CheckRunner(const NodeSources& sources, const CheckChoice& choice,
                std::chrono::milliseconds total_limit = kTotalLimit);
    CheckRunner(const CheckRunner&) = delete;
    CheckRunner& operator=(const CheckRunner&) = delete;

    /// Takes what the children have said. True when all have answered or their time is over.
    bool wait(Deadline until);
    /// After wait() has returned true. `node` names the report.
    NodeReport take(const std::string& node);

private:
    struct Job {
        const Check* check;
        std::size_t part;
    };
    struct Child {
        std::vector<Job> jobs;
        std::size_t next = 0;  ///< of jobs: the one that runs
        HelperProcess process;
        std::string text;                     ///< of a line that is not whole yet
        Deadline::Clock::time_point started;  ///< of the job that runs
        bool over() const { return next >= jobs.size(); }
    };

    void start(Child& child);
    void run_jobs(const Child& child, int output) const;
    void read_output(Child& child);
    void take_line(Child& child, const std::string& line);
    void give_up_job(Child& child, const std::string& why, bool silent);
    void enforce_limits();
    Deadline next_limit() const;

    const NodeSources& sources_;
    Deadline deadline_;
    std::vector<Child> children_;
    NodeReport report_;
};

/// All checks of this node, in children, to the end. Blocks: CheckRunner::kTotalLimit at most.
NodeReport examine_node(const NodeSources& sources, const CheckChoice& choice,
                        std::chrono::milliseconds total_limit = CheckRunner::kTotalLimit);

}  // namespace autolaunch::launcher
