#pragma once
#include "base/unique_fd.hpp"
#include "plan/launch_plan.hpp"
#include "session/session_protocol.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace autolaunch::launcher {

/// One half of a pair: which copy of which shard it holds is the ranks' business.
struct MemorySlot {
    std::string group;
    int shard = 0;
    int slot = 0;

    auto operator<=>(const MemorySlot&) const = default;
};

enum class MemoryDecision {
    nothing,     ///< nothing is there, and nothing was to be
    what_is,     ///< the file that is there
    fresh,       ///< a new file takes its place
    too_much,    ///< the limit would be passed
    not_a_slot,  ///< no such slot can be
};

/// Which slots a node has memory for, and how much that is. Pure.
///
/// A file is written by ranks of one generation only: whoever is to write in a later one gets a
/// fresh file, so a process of an earlier generation that is still there somehow writes where
/// nobody looks.
class MemoryTable {
public:
    explicit MemoryTable(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

    /// `bytes` 0: only to look. Remembers what it decides.
    MemoryDecision ask(const MemorySlot& slot, int generation, std::int64_t bytes);
    std::uint64_t held_bytes() const { return held_bytes_; }
    std::uint64_t limit_bytes() const { return limit_bytes_; }
    void forget(const MemorySlot& slot);

private:
    struct File {
        int generation = 0;
        std::uint64_t bytes = 0;
    };
    std::uint64_t limit_bytes_;
    std::uint64_t held_bytes_ = 0;
    std::map<MemorySlot, File> files_;
};

/// The memory in which the ranks of this node keep copies of their state
/// (docs/memory-checkpoints.md): memory files that are ours, so that they outlive a rank and its
/// generation, and are gone with us.
///
/// Owner: the agent, beside the generations. Threads: the agent's one. Blocks: never; nothing is
/// written to a file here.
class RankMemory {
public:
    /// `limit_of`: where the limit comes from, for people.
    RankMemory(std::uint64_t limit_bytes, std::string limit_of, std::string hostname);

    /// Answers by asked.answer. `rank` and `generation` of who asks.
    void answer(int rank, int generation, const session::MemoryAsked& asked);

    int made() const { return made_; }  ///< memory files, so far

private:
    session::MemoryAnswer refuse_too_much(int rank, std::uint64_t bytes) const;

    MemoryTable table_;
    std::string limit_of_, hostname_;
    struct Held {
        UniqueFd file;
        std::uint64_t bytes = 0;
    };
    std::map<MemorySlot, Held> files_;
    int made_ = 0;
};

/// With the limit that the spec gives, else half of what the node's ranks may use (cgroup or
/// machine).
RankMemory make_rank_memory(const LaunchPlan& plan);

}  // namespace autolaunch::launcher
