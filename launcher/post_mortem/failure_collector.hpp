#pragma once
#include "causes/rank_end.hpp"
#include "control/control_message.hpp"
#include "placement_watch/gpu_events.hpp"
#include "plan/launch_plan.hpp"
#include "post_mortem/hca_ports.hpp"
#include "post_mortem/kernel_log.hpp"
#include "tasks/stand_ins.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What the agent knows of a rank besides its end.
struct RankCircumstances {
    bool may_miss_words = false;        ///< no room was kept for its last words
    std::string cannot_resume;          ///< its own word; empty: it did not say so
    std::string mpi_fault;              ///< MPI's
    std::string last_moment;            ///< what it did last, by its reports and its recorder
    std::vector<NvmlEvent> gpu_events;  ///< of its GPU
};

/// Collects what a node can know of the ends of one generation's ranks, and judges them.
///
/// Owner: Generation. Threads: the agent's one. Blocks: on the files of ranks.
class FailureCollector {
public:
    using Clock = std::chrono::steady_clock;

    /// Notes where counters and logs stand: before the first rank starts.
    FailureCollector(const LaunchPlan& plan, int generation, const StandIns* stand_ins);

    /// The rank came from an earlier generation, and writes where it began to.
    void logs_are_in(int rank, std::string folder) { folders_[rank] = std::move(folder); }
    std::string folder_of(int rank) const;
    /// A rank that failed, at `ended_at`.
    control::RankFailed describe(const RankExited& end, Clock::time_point ended_at,
                                 const RankCircumstances& circumstances);
    /// What the words of a rank say that had been asked to stop; nothing: they tell of that.
    std::optional<control::RankFailed> describe_stopped(const RankExited& end,
                                                        Clock::time_point ended_at);

private:
    RankEnd collect(const RankExited& end, const RankCircumstances& circumstances);
    control::RankFailed message(const RankEnd& rank, Clock::time_point ended_at) const;

    const LaunchPlan& plan_;
    const int generation_;
    std::map<int, std::string> folders_;  ///< by rank, of those from earlier generations
    const StandIns* const stand_ins_;
    KernelLog kernel_log_;
    bool knows_pids_;
    std::vector<HcaPort> ports_before_;
    std::vector<std::optional<std::int64_t>>
        oom_kills_before_;  ///< by local task: each may have its own cgroup
};

/// Without what is shown only of the failure that counts; of ranks that followed, without words.
void shorten(control::RankFailed& failed);

}  // namespace autolaunch::launcher
