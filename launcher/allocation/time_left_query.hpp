#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Asks Slurm how long a job may still run, where the environment does not say (Slurm
/// before 23.02): one `squeue`, beside whatever else is done. The launch does not wait for it.
///
/// Not libslurm: it ends the process that calls it when its configuration cannot be read, and
/// retries for minutes.
///
/// The squeue ends with the object. Somebody else may end or reap it, as with all children of this
/// process: then the query is over early, and what was not answered to the end is no answer.
///
/// Owner: the JobEndTime. Threads: its owner's. Blocks: wait(); otherwise a second at most, for a
/// squeue that hangs in the kernel.
class TimeLeftQuery {
public:
    /// `slurm_job_id` as in SLURM_JOB_ID. Where squeue cannot be started, the query is over at
    /// once.
    explicit TimeLeftQuery(const std::string& slurm_job_id);
    TimeLeftQuery(const TimeLeftQuery&) = delete;
    TimeLeftQuery& operator=(const TimeLeftQuery&) = delete;
    ~TimeLeftQuery();

    /// Readable when advance() has something to do; -1 when the query is over.
    int fd() const { return answer_fd_.get(); }
    /// Takes what has come; true when the query is over.
    bool advance();
    /// Advances until the query is over; gives up at the deadline.
    std::optional<std::chrono::seconds> wait(const Deadline& deadline);
    /// How long the job had when squeue answered. Nothing: no answer, or no limit.
    std::optional<std::chrono::seconds> time_left() const;

private:
    void end() noexcept;

    std::string job_;
    UniqueFd process_;  // a pidfd
    UniqueFd answer_fd_;
    std::string answer_;
};

}  // namespace autolaunch::launcher
