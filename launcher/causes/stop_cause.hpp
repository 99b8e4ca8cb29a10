#pragma once
#include "causes/cause.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// Ends that are no rank's own. Pure.

/// A stop signal, and what is known of who sent it.
struct AskedToStop {
    int signal = 0;
    bool under_scheduler = false;
    std::optional<std::chrono::seconds> left = {};  ///< of the job's time, when it came
    /// The scheduler's word; nothing: it was not asked, or did not know. `told_by`: its fields.
    std::optional<Cause> told = {};
    std::string told_by = {};
    bool told_for_sure =
        true;  ///< else it fits what the scheduler says, and so would something else
    std::string outcome = {};     ///< instead of "stopped by SIGTERM"; empty: that
    bool all_ended_well = false;  ///< every rank exited with 0
    bool has_checkpoint = false;  ///< one was published in this run
};
EndRecord judge_stop(const AskedToStop& stop);

/// A rule of the sweep whose element the job is has found that it is not worth going on with.
inline constexpr char kStoppedEarly[] = "stopped early";
EndRecord judge_early_stop(const std::string& why);

EndRecord judge_lost_node(const std::string& node, const std::string& why, bool has_checkpoint);

/// The node is there, and has killed its ranks: it had not heard of the head for too long.
EndRecord judge_ranks_given_up(const std::string& node, const std::string& why);

/// Who waits for the agent was killed, on that node of several; empty: there is one alone.
EndRecord judge_agent_killed(const std::string& node);

/// The job stood still, and was ended for it.
struct HangFacts {
    int rank = -1;     ///< that others wait for; -1: nobody knows
    std::string node;  ///< its own
    std::string what;  ///< "rank 3 (pid 99) reads /data/7.bin", or that no step is done
    std::vector<std::string> evidence;
    bool sure = false;  ///< nobody was left who could go on
    std::string limit;  ///< "restart.hang_after, 5m"
};
EndRecord judge_hang(const HangFacts& hang);

/// The others waited for this rank in every step, and another node is to take its own's place.
EndRecord judge_straggler(int rank, const std::string& node, const std::string& what);

/// A rank could not be started; `exit_code` is what the job would exit with for it.
struct StartFacts {
    int rank = 0, exit_code = 0;
    std::string node, what, hint;
    bool restart_helps = false;
    bool while_running = false;  ///< what it was started without does not come
};
EndRecord judge_start(const StartFacts& start);

/// The same end, where SIGKILL had no effect on some of its processes: they are left.
EndRecord with_processes_left(EndRecord record);

/// These come from a person at a terminal; the others from who wants the node back.
bool sent_by_a_person(int signal);

}  // namespace autolaunch::launcher
