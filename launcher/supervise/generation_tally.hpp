#pragma once
#include "control/control_message.hpp"
#include "exit_codes/rank_exited.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

/// What the head knows of one generation: how far each node is, and which rank failed first. Pure:
/// moments are given.
class GenerationTally {
public:
    using Moment = std::chrono::steady_clock::time_point;

    struct Failed {
        control::RankFailed what;
        Moment at;  ///< when the rank ended, by the head's clock; it may be earlier by `link`
        std::chrono::microseconds link{0};
    };

    /// How long a message may take from a node that has said nothing yet.
    static constexpr std::chrono::microseconds kUnknownLink = std::chrono::seconds(1);

    GenerationTally(int generation, int node_count, Moment begun);

    /// Nobody was told to start: nothing is waited for.
    void never_started();
    /// It was lost before, and takes no part.
    void leave_out(int node);
    void running(int node, const control::GenerationRunning& running, Moment heard);
    /// The earliest failure counts, not the one that was heard of first.
    void failed(int node, control::RankFailed failure, Moment heard);
    void ended(int node, control::RanksEnded report, Moment heard);
    /// Nothing more is heard of it.
    void lost(int node);

    int generation() const { return generation_; }
    Moment begun() const { return begun_; }
    /// Every node has said so, and none was lost.
    bool all_running() const { return running_ == nodes_.size(); }
    /// Of all nodes that run.
    int ranks_bound() const { return ranks_bound_; }
    int numa_nodes() const { return numa_nodes_; }
    int gpus() const { return gpus_; }
    bool all_ended() const { return open_ == 0; }
    bool every_rank_exited_zero() const;
    /// Of all nodes, in the order in which they were heard of, but with the earliest first.
    const std::vector<Failed>& failures() const { return failures_; }
    const Failed* first_failure() const { return failures_.empty() ? nullptr : &failures_.front(); }
    std::optional<std::int64_t> checkpoint_step() const { return checkpoint_step_; }
    /// Of the ranks that are not `rank`, by node and then in their order.
    std::vector<RankExited> ends_but(std::optional<int> rank) const;
    /// The moment of the last rank's end.
    Moment last_end() const { return last_end_; }

private:
    struct Node {
        std::chrono::microseconds link{kUnknownLink};
        bool ended = false, every_rank_exited_zero = false;
        std::vector<RankExited> ends;
    };

    int generation_;
    Moment begun_, last_end_;
    std::vector<Node> nodes_;
    std::size_t running_ = 0;
    int ranks_bound_ = 0, numa_nodes_ = 0, gpus_ = 0;
    std::size_t open_;  // nodes that have not ended
    std::vector<Failed> failures_;
    std::optional<std::int64_t> checkpoint_step_;
};

}  // namespace autolaunch::launcher
