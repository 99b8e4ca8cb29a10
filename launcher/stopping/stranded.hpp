#pragma once
#include "allocation/allocation.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// An agent that has left its job, for it found no majority of the job's agents in its time. It
/// votes no more, and hears nobody. Plain data.
struct Stranded {
    struct Other {
        std::string name;  ///< of the node, as the scheduler calls it
        std::string
            door;  ///< "address:port", where its agent is heard for as long as it is in the job
    };
    std::vector<Other> others =
        {};                  ///< the newest record's voters, in the order of nodes, but this one
    std::size_t place = 0;   ///< this node's among them
    int term = 0;            ///< of the last head that it has followed
    bool led = false;        ///< which was itself
    int generation = -1;     ///< the newest that has begun here; -1: none
    bool had_ranks = false;  ///< of that
    bool has_saved = false;  ///< there is a checkpoint to go on from
    std::filesystem::path log = {};  ///< events.jsonl of the job's heads
    /// In which a head that goes on has given this node's ranks up, and ended its own.
    std::chrono::milliseconds settles_in{0};
};

/// What a job's heads have written of it: its events.jsonl, line by line. Pure.
class LogOfHeads {
public:
    void read(std::string_view line);
    /// The job has ended, or a head has done more of it than who is left so can know of: it has
    /// ended the generation, or begun another. Where the last that wrote was this agent, it has
    /// not. An end that asks for a start anew (exit code 75) is nobody's going on: who wrote it may
    /// have found no majority for it, or have died before it asked.
    bool has_gone_on(const Stranded& stranded) const;

private:
    bool is_over_ = false, is_to_start_anew_ = false;
    int term_ = 0;
    int newest_ = -1;           ///< generation
    std::optional<int> ended_;  ///< generation
};

/// Of nodes that `scontrol show node -o` tells about those that are gone in Slurm's eyes: DOWN, or
/// without power. One that does not answer yet (IDLE*) is none. Pure.
std::set<std::string> nodes_down(std::string_view answer);

/// Those of the others of which it is not proved that they cannot go on with the job; empty: nobody
/// can. It is proved by a node's machine, which says that nobody listens at the agent's door
/// (`refused`), or by Slurm (`down`). Slurm may be cut off from nodes that go on, so that its word
/// counts only where this node had ranks: whoever goes on without them ends the generation, and
/// LogOfHeads tells. Pure.
std::vector<std::string> not_proved_gone(const Stranded& stranded,
                                         const std::set<std::string>& refused,
                                         const std::set<std::string>& down);

struct StrandedRequest {
    bool wanted = false;  ///< slurm_config.requeue
    int restarts = 0;     ///< SLURM_RESTART_COUNT
};
/// Whether a start of the whole job anew (exit code 75) is safe and wanted: Slurm may, there is a
/// checkpoint, and nobody else can go on with it. `say` shows a line. Of several agents that are
/// left so, the first answers first, and the others once it has had the time to act. Blocks: where
/// Slurm has to notice first which nodes are gone, SlurmdTimeout, 10.5 min at most.
bool may_start_anew(const Stranded& stranded, const StrandedRequest& request,
                    const EnvironmentMap& environment,
                    const std::function<void(const std::string& line)>& say);

}  // namespace autolaunch::launcher
