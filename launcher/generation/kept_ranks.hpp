#pragma once
#include "base/deadline.hpp"
#include "generation/rank_process.hpp"
#include "logs/log_room.hpp"
#include "logs/rank_files.hpp"

#include <list>
#include <map>
#include <memory>

namespace autolaunch::launcher {

/// Ranks that have left their generation and wait for the next one, with what the agent keeps of
/// them. Nobody hears of their ends.
///
/// Owner: NodeSupervisor, between two generations. Threads: the agent's one.
struct KeptRanks {
    std::list<RankProcess> processes;
    /// By local rank: where it writes, and how far that was shown.
    std::map<int, RankFiles> files;
    std::unique_ptr<LogRoom> log_room = std::make_unique<LogRoom>();

    /// No generation follows: SIGKILL, until the deadline. Blocks.
    void end(Deadline deadline);
    /// The same for those that cannot go on with another number.
    void end_fixed(Deadline deadline);
};

}  // namespace autolaunch::launcher
