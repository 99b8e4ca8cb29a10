#pragma once
#include "fsdp/bucket.hpp"
#include "fsdp/gradient_tree.hpp"
#include "fsdp/lane.hpp"
#include "fsdp/model_device.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace autolaunch::fsdp {

/// Holds the whole gradients that backward adds to, and sums them over ranks into the buckets'
/// gradient shards.
///
/// Each bucket's gradient, from one optimizer step to the next:
///
///     state        whole()         reduce(), last member    complete_step()  reset()   discard()
///     empty        collects        reduces zeros            -                -         -
///     collecting   -               is reduced; empty        is reduced       -         zeros,
///     empty reduced      collects        is reduced, added        finishes once    empty     empty
///
/// "is reduced" is a job on the lane: reduce-scatter over the ranks of one copy of the model, then
/// into the shard in the accumulate type. "finishes" is what a step needs once: the all-reduce
/// between copies. Where a bucket's whole gradient stays in memory (choose_whole() of
/// bucket_plan.hpp: shard_optimizer, no_shard, and the largest buckets) and is of the accumulate
/// type, the shard lies in the whole gradient; then micro-batches add up there, nothing "is
/// reduced", and "finishes" sums over all ranks, in place.
///
/// Streams are the trainer's: memory is ready, and gradients are complete, in their order.
///
/// Owner: the engine. Threads: the trainer's; jobs run on the lane's. Blocks: on the CPU, whole()
/// while all slots are still being reduced and complete_step() until all is done; on a GPU, the
/// destructor until reset()'s work is.
class GradientReducer {
public:
    /// With `hide`, which memory of a GPU cannot be, gradients that were reduced read as NaN, and
    /// what a pointer from before adds to them is lost.
    GradientReducer(std::deque<Bucket>& buckets, ShardMesh& mesh, ModelDevice& device, Lane& lane,
                    const ShardedModelOptions& options, bool hide = false);
    GradientReducer(const GradientReducer&) = delete;
    GradientReducer& operator=(const GradientReducer&) = delete;
    ~GradientReducer();

    /// Collective, once, before anything else.
    void allocate();
    bool is_allocated() const noexcept { return allocated_; }

    /// The bucket's whole gradient on this rank, in the reduce type; zero when first asked for
    /// since it was reduced.
    std::byte* whole(Bucket& bucket, Stream stream);
    /// The member's gradient is complete. Starts the bucket's reduction when all members' are, or
    /// when `last` says that none of them comes again before the step.
    void reduce(Bucket& bucket, Bucket::Member& member, bool last, Stream stream);
    /// Reduces what is left, and the stream waits for all. Afterwards the shards hold the sums over
    /// all ranks.
    void complete_step(Stream stream);
    /// The gradients are used up by what is on the stream.
    void reset(Stream stream);
    /// What was added and reduced since the last step counts no more. Waits for reductions under
    /// way.
    void discard(Stream stream);

    /// A value of this rank's own gradient, before any sum, that is a NaN or an infinity.
    struct NonFinite {
        const Bucket* bucket = nullptr;
        std::size_t element = 0;  ///< in the arena
    };
    std::optional<NonFinite> own_nonfinite(Stream stream) const;

    std::size_t whole_bytes()
        const noexcept;  ///< of slots, of buckets' own whole gradients, and of deterministic sums

private:
    struct Slot {
        CommunicatorBuffer memory;
        bool held = false;
        std::uint64_t turn = 0;  ///< grows with each reduction
        Fence reduction;
    };
    struct State {
        std::byte* whole = nullptr;
        Slot* slot = nullptr;  ///< that `whole` is in; null for the bucket's own
        CommunicatorBuffer own;
        Fence own_reduction;
        Fence ready;               ///< `whole` may be added to, on any stream
        std::vector<Fence> added;  ///< what other members' backward added, where on a GPU
        bool reduced = false;      ///< since the last step
        bool finished = false;     ///< for this step
        GradientTree tree;
    };

    bool is_in_place(const Bucket& bucket) const noexcept {
        return sums_in_place_ && bucket.keeps_whole_gradient();
    }
    void begin_whole(Bucket& bucket, State& state, Stream stream);
    std::size_t bytes_of(const Bucket& bucket) const noexcept {
        return bucket.arena_elements() * size_of(options_.precision.reduce);
    }
    Slot* free_slot();
    void take_own(Bucket& bucket, State& state);
    Fence submit(Bucket& bucket, Lane::Job job, Stream stream);
    void start_reduction(Bucket& bucket, Stream stream);
    void start_finish(Bucket& bucket, Stream stream);
    void finish(Bucket& bucket, State& state, Stream stream);
    void sum_over_ranks(Bucket& bucket, State& state, std::byte* whole, bool first, Stream stream);
    void allocate_ordered_sums();
    void sum_shards(std::byte* whole, std::byte* sum, std::size_t count, Stream stream);
    void sum_copies(const std::byte* values, std::byte* sum, std::size_t count, Stream stream);
    void look_for_nonfinite(const Bucket& bucket, const std::byte* values, Stream stream) const;
    void forget_nonfinite(Stream stream);

    std::deque<Bucket>& buckets_;
    ShardMesh& mesh_;
    ModelDevice& device_;
    Lane& lane_;
    ShardedModelOptions options_;
    std::uint8_t free_byte_;  // that free slots and own whole gradients are full of
    bool sums_in_place_;      // where whole gradients stay in memory the shards lie in them
    bool allocated_ = false;
    std::deque<Slot> slots_;
    std::vector<State> states_;  // by bucket
    std::unique_ptr<OrderedSums>
        ordered_;  // of a deterministic model whose communicators choose their order
    CommunicatorBuffer nonfinite_;  // by bucket: the first element that is not finite, or kNone
    std::uint64_t turns_ = 0;
    Fence used_up_;
};

}  // namespace autolaunch::fsdp
