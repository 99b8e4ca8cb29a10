#pragma once
#include "base/deadline.hpp"

#include <string>

namespace autolaunch::launcher {

/// What a field of Slurm's takes without being cut.
inline constexpr std::size_t kMostComment = 500;

/// Whether a job has a comment of its own, by the line of `scontrol show job -o`. Pure.
bool has_comment(const std::string& line);

/// Puts a text into the job's AdminComment, which operators alone may set and sacct keeps, else
/// into its Comment, where there is none: what a user has written there stays. In an accounting of
/// jobs that asks for it (AccountingStoreFlags=job_comment) sacct shows that one, too. Returns into
/// which it went, or an empty text and in `why` the reason. Blocks: until the deadline at most.
std::string comment_on_job(const std::string& job, const std::string& text,
                           const Deadline& deadline, std::string& why);

}  // namespace autolaunch::launcher
