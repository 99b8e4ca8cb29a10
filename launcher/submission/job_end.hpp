#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// How a job ended, or each of an array's, by what `scontrol show job -o` says again and again.
///
/// Owner: who waits. Threads: its owner's. Blocks: never.
class JobEnd {
public:
    /// One more answer. False: Slurm's record has no job in it.
    bool take(std::string_view answer);
    /// Whether all that was seen has ended and the last answer had no job that goes on.
    bool is_over() const { return !ends_.empty() && !goes_on_; }
    /// The highest code; of one that a signal ended 128 + it; 1 where Slurm ended it and it has
    /// none.
    int exit_code() const;
    /// "TIMEOUT", the worst one's; "COMPLETED" where all went well.
    std::string state() const;

private:
    struct End {
        std::string state;
        int code = 0;
    };
    std::map<std::string, End> ends_;  // by job id
    bool goes_on_ = true;
};

/// "Job 3 to start at 2026-11-29T06:40:00 using 32 processors on nodes node1 in partition main", of
/// sbatch --test-only.
struct StartEstimate {
    std::string at;  ///< as Slurm writes it; empty: it does not say
    std::string nodes, partition;
};
/// Pure.
StartEstimate parse_estimate(std::string_view text);

}  // namespace autolaunch::launcher
