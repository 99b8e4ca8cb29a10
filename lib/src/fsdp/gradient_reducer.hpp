#pragma once
#include "fsdp/aligned_buffer.hpp"
#include "fsdp/bucket.hpp"
#include "fsdp/gradient_tree.hpp"
#include "fsdp/lane.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace autolaunch::fsdp {

/// Holds the whole gradients that backward adds to, and sums them over ranks into the buckets' gradient shards.
///
/// Each bucket's gradient, from one optimizer step to the next:
///
///     state        whole()         reduce(), last member    flush()          reset()
///     empty        collects        reduces zeros            -                -
///     collecting   -               is reduced; empty        is reduced       -
///     reduced      collects        is reduced, added        finishes once    empty
///
/// "is reduced" is a job on the lane: reduce-scatter over the ranks of one copy of the model, then into the shard in
/// the accumulate type. "finishes" is what a step needs once: the all-reduce between copies. Where whole gradients stay
/// in memory (shard_optimizer, no_shard) and are of the accumulate type, the shard lies in the whole gradient; then
/// micro-batches add up there, nothing "is reduced", and "finishes" sums over all ranks, in place.
///
/// Owner: the engine. Threads: the trainer's; jobs run on the lane's. Blocks: whole() while all slots are still being
/// reduced, complete_step() until all is done.
class GradientReducer {
public:
    GradientReducer(std::deque<Bucket>& buckets, ShardMesh& mesh, Lane& lane, const ShardedModelOptions& options);

    /// Collective, once, before anything else.
    void allocate();
    bool is_allocated() const noexcept { return allocated_; }

    /// The bucket's whole gradient on this rank, in the reduce type; zero when first asked for since it was reduced.
    std::byte* whole(Bucket& bucket);
    /// The member's gradient is complete. Starts the bucket's reduction when all members' are, or when `last` says that
    /// none of them comes again before the step.
    void reduce(Bucket& bucket, Bucket::Member& member, bool last);
    /// Reduces what is left, and waits for all. Afterwards the shards hold the sums over all ranks.
    void complete_step();
    /// The gradients are used up.
    void reset() noexcept;

    /// A value of this rank's own gradient, before any sum, that is a NaN or an infinity.
    struct NonFinite {
        const Bucket* bucket = nullptr;
        std::size_t element = 0;  ///< in the arena
    };
    std::optional<NonFinite> own_nonfinite() const;

    std::size_t whole_bytes() const noexcept;  ///< of slots and of buckets' own whole gradients and sums

private:
    struct Slot {
        CommunicatorBuffer memory;
        bool held = false;
        Work reduction;
    };
    struct State {
        std::byte* whole = nullptr;
        Slot* slot = nullptr;  ///< that `whole` is in; null for the bucket's own
        CommunicatorBuffer own;
        Work own_reduction;
        bool reduced = false;   ///< since the last step
        bool finished = false;  ///< for this step
        GradientTree tree;
        std::optional<std::size_t> nonfinite;
    };

    Slot* free_slot();
    void take_own(Bucket& bucket, State& state);
    void start_reduction(Bucket& bucket);
    void start_finish(Bucket& bucket);
    void finish(Bucket& bucket, State& state);
    void sum_over_ranks(Bucket& bucket, State& state, std::byte* whole, bool first);
    void look_for_nonfinite(State& state, const std::byte* values, std::size_t count) const;

    std::deque<Bucket>& buckets_;
    ShardMesh& mesh_;
    Lane& lane_;
    ShardedModelOptions options_;
    bool keeps_whole_;  // whole gradients stay in memory
    bool in_place_;     // and the shards lie in them
    bool allocated_ = false;
    std::deque<Slot> slots_;
    std::vector<State> states_;  // by bucket
};

}  // namespace autolaunch::fsdp
