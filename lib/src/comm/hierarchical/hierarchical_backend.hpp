#pragma once
// Collectives in two steps: within a node through one backend, between the nodes through another
// ("shm+mpi").
#include "comm/abort_state.hpp"
#include "comm/backend.hpp"
#include "comm/hierarchical/node_plan.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch {

struct StepwiseReduction;

/// Each rank of a node reduces its slice of the node's data, talks about it to the ranks of the
/// same local rank on the other nodes, and shares what came out with its node: all of a node's
/// ranks use the network, and every byte crosses it once. Halves stay f32 until the last addition.
/// Messages, and blocks of all_to_all for other nodes, go straight to their rank.
///
/// Results depend on the inputs and the grouping alone: sums are taken pairwise over a node's
/// ranks, then pairwise over the nodes (`cross` has a fixed order).
///
/// A failure in one part ends all parts. A thread looks every 20 ms whether a rank of another node
/// has aborted, for ranks that wait in shared memory; where MPI may not be called by a second
/// thread, they wait for the timeout.
///
/// Owner, threads: as every backend. Blocks: the destructor for 20 ms at most.
class HierarchicalBackend final : public CommunicatorBackend {
public:
    /// `local`: the ranks of this node, by local rank. `world`: all ranks, as `plan` has them; it
    /// must reduce in a fixed order. `fixed_order`: so must the group and its parts. Collective
    /// over `world`.
    static std::shared_ptr<HierarchicalBackend> create(std::shared_ptr<CommunicatorBackend> local,
                                                       std::shared_ptr<CommunicatorBackend> world,
                                                       const NodePlan& plan, bool fixed_order);
    HierarchicalBackend(std::shared_ptr<CommunicatorBackend> local,
                        std::shared_ptr<CommunicatorBackend> cross,
                        std::shared_ptr<CommunicatorBackend> world, bool fixed_order);
    ~HierarchicalBackend() override;

    std::string_view name() const noexcept override { return name_; }
    int rank() const noexcept override { return world_->rank(); }
    int size() const noexcept override { return world_->size(); }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work start(const CollectiveCall& call, Stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream) override;
    void barrier() override;
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    /// A part on one node is `local`'s part; one that plan_nodes() refuses is `world`'s.
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override;
    CommunicatorStatus status() const override;
    std::string abort_reason() const override { return abort_state_.reason(); }

private:
    int ranks_per_node() const noexcept { return local_->size(); }
    int nodes() const noexcept { return cross_->size(); }
    int node() const noexcept { return cross_->rank(); }
    int local_rank() const noexcept { return local_->rank(); }

    /// Runs `work`; what it throws aborts all parts.
    void guarded(const std::function<void()>& work);
    [[noreturn]] void throw_what_ended();
    // One step in a part; errors say what was called and which ranks the part counts.
    void within_node(CollectiveCall call);
    void between_nodes(CollectiveCall call);
    void between_nodes(std::span<CollectiveCall> messages);
    void between_ranks(std::span<CollectiveCall> messages);
    void run_messages(CommunicatorBackend& part, std::span<CollectiveCall> messages);
    using Where = std::string (HierarchicalBackend::*)() const;
    template <class Step>
    void named(const Step& step, Where where) const;
    std::string node_text() const;
    std::string peers_text() const;
    std::string ranks_text() const;
    void end_all_parts(const std::string& reason);
    void end_with_world();
    void watch();
    void reserve_scratch(std::size_t bytes);

    void run(const CollectiveCall& call);
    // hierarchical_moves.cpp
    void broadcast(const CollectiveCall& call);
    void all_gather(const CollectiveCall& call);
    void all_to_all(const CollectiveCall& call);
    void gather(const CollectiveCall& call);
    void scatter(const CollectiveCall& call);
    /// Every rank of a node has its slice of `data` in place; then all have all.
    void share_slices(std::byte* data, const BlockCounts& slices, DataType type);
    /// The blocks of `node`'s ranks, and the elements before them.
    std::vector<std::size_t> segment_counts(const BlockCounts& blocks, int node) const;
    BlockCounts segment(const BlockCounts& blocks, int node) const;
    std::size_t segment_offset(const BlockCounts& blocks, int node) const;
    BlockCounts segment_totals(const BlockCounts& blocks) const;
    /// `count` elements cut in a slice for each rank of the node; short ones are all the first
    /// rank's, or `only`'s.
    BlockCounts slices_of(std::size_t count, DataType type, int only = 0) const;
    // hierarchical_reductions.cpp
    void all_reduce(const CollectiveCall& call);
    void reduce(const CollectiveCall& call);
    void reduce_scatter(const CollectiveCall& call);
    /// One piece of the blocks of `node`'s ranks, over the ranks of this node, to `partial`.
    void reduce_segment(const CollectiveCall& call, const StepwiseReduction& reduction, int node,
                        std::size_t begin, std::size_t piece, std::byte* partial);

    std::shared_ptr<CommunicatorBackend> local_;
    std::shared_ptr<CommunicatorBackend> cross_;
    std::shared_ptr<CommunicatorBackend> world_;
    std::string name_;
    bool fixed_order_;
    const char* calling_ = "";  // what the user called, for the errors of its steps
    AbortState abort_state_;
    mutable std::atomic<bool> part_has_ended_{false};  // status() has said so
    std::shared_ptr<std::vector<std::byte>> scratch_ = std::make_shared<std::vector<std::byte>>();

    std::mutex watch_mutex_;
    std::condition_variable stopping_;
    bool is_stopping_ = false;
    std::thread watcher_;  // last: it uses the others
};

}  // namespace autolaunch
