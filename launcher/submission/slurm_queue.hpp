#pragma once
#include "base/deadline.hpp"
#include "submission/cluster_answers.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What one of Slurm's commands said.
struct CommandAnswer {
    std::optional<int> code;  ///< nothing: it could not be started, or did not end in time
    std::string out, errors;
    bool late = false;  ///< it did not end in time

    bool good() const { return code == 0; }
};
/// Blocks until the deadline at most.
CommandAnswer ask_command(std::vector<std::string> argv, const Deadline& deadline);

/// sbatch with these words. Throws ExitError (69) where it does not answer, which leaves it open
/// `what` has become of, or refuses: in its own words. Blocks 60 s at most.
CommandAnswer ask_sbatch(std::vector<std::string> words, const std::string& what);

/// Asks all of it side by side; of each question what was answered by the deadline. Throws
/// ExitError (69) where slurmctld gives no answer: what to try is said. Blocks until the deadline
/// at most.
ClusterAnswers ask_cluster(const std::vector<std::string>& depends_on, const std::string& user,
                           const Deadline& deadline);

/// Follows a job until it is over, requeues included, and says once that Slurm does not answer, and
/// that it does again. Its exit code; throws ExitError (69) where Slurm knows the job no longer.
/// Blocks as long as the job lasts.
int wait_for_job(const std::string& job_id, const std::function<void(const std::string&)>& say);

}  // namespace autolaunch::launcher
