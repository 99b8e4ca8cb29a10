#pragma once
#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Asks Slurm how long a job may still run, and in all, where the environment does not say (Slurm
/// before 23.02): one `squeue`, beside whatever else is done. The launch does not wait for it.
///
/// Owner: the JobEndTime. Threads: its owner's. Blocks: wait(); otherwise a second at most, for a
/// squeue that hangs in the kernel.
class TimeLeftQuery {
public:
    /// `slurm_job_id` as in SLURM_JOB_ID. Where squeue cannot be started, the query is over at
    /// once.
    explicit TimeLeftQuery(const std::string& slurm_job_id);

    /// Readable when advance() has something to do; -1 when the query is over.
    int fd() const { return squeue_.fd(); }
    /// Takes what has come; true when the query is over.
    bool advance() { return squeue_.advance(); }
    /// Advances until the query is over; gives up at the deadline.
    std::optional<std::chrono::seconds> wait(const Deadline& deadline);
    /// How long the job had when squeue answered. Nothing: no answer, or no limit.
    std::optional<std::chrono::seconds> time_left() const;
    /// The job's limit as squeue writes it: "4:00:00", "UNLIMITED". Empty: no answer.
    std::string time_limit() const;

private:
    std::string answer_for_job() const;

    std::string job_;
    SlurmCommand squeue_;
};

}  // namespace autolaunch::launcher
