#pragma once
#include "fsdp/bucket_plan.hpp"
#include "fsdp/model_device.hpp"
#include "fsdp/optimizer_shard.hpp"
#include "fsdp/shard_mesh.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

/// What is gathered and reduced together: one arena of parameters of one or more consecutive units,
/// all trainable or all frozen, and this rank's shard of it. A resident arena is whole in this
/// rank's memory always, the shard is in it; others are gathered into a slot.
///
/// Offloaded (ShardedModelOptions::offload_optimizer), the master is in the CPU's memory, with a
/// copy of the gradient's shard and one of the rounded parameters: what the optimizer sees. Who
/// copies to and from the GPU's is the optimizer's passes.
///
/// Owner: the engine. Threads: the trainer's, and a lane's while a job of this bucket runs.
class Bucket {
public:
    /// One unit's part.
    struct Member {
        std::size_t unit_index = 0;
        std::int64_t begin = 0;  ///< of its elements in the arena, up to the next member's
        std::int64_t end = 0;
        OptimizerShard shard;
        bool added = false;  ///< grad() was called since its last reduce_grads()
        bool reduced =
            false;  ///< reduce_grads() was called, and the bucket waits for other members
    };

    /// The units' names and specs must stay where they are.
    Bucket(std::size_t index, const BucketPlan& plan, std::span<const UnitToPlan> units,
           const ShardMesh& mesh, const ShardedModelOptions& options);

    /// Collective.
    void allocate_parameters(const ShardMesh& mesh, ModelDevice& device);
    /// Collective; of trainable buckets. `whole`: backward adds to memory in which the shard lies.
    void allocate_gradients(const ShardMesh& mesh, ModelDevice& device, bool whole);

    std::size_t index() const noexcept { return index_; }
    const std::string& name() const noexcept { return name_; }  ///< its units', "h.0" or "h.0..h.3"
    bool is_trainable() const noexcept { return trainable_; }
    bool is_resident() const noexcept { return resident_; }
    /// Backward always adds to the same memory of its own, not to a slot.
    bool keeps_whole_gradient() const noexcept { return keeps_whole_gradient_; }
    const ShardLayout& layout() const noexcept { return layout_; }
    std::vector<Member>& members() noexcept { return members_; }
    const std::vector<Member>& members() const noexcept { return members_; }
    Member& member(std::size_t unit_index);

    std::size_t shard_elements() const noexcept {
        return static_cast<std::size_t>(layout_.shard_elements());
    }
    std::size_t arena_elements() const noexcept {
        return static_cast<std::size_t>(layout_.arena_elements());
    }
    DataType param_type() const noexcept { return param_type_; }
    DataType gradient_type() const noexcept { return gradient_type_; }
    /// This rank's shard in the type that is gathered.
    std::byte* param_shard() const noexcept;
    /// The whole arena; of resident buckets.
    std::byte* resident_arena() const noexcept { return static_cast<std::byte*>(param_.data()); }
    std::byte* gradient_shard() const noexcept;
    std::byte* resident_gradient() const noexcept {
        return static_cast<std::byte*>(gradient_.data());
    }
    std::byte* master_shard() const noexcept {
        return has_own_master() ? static_cast<std::byte*>(master_.data()) : param_shard();
    }
    DataType master_type() const noexcept { return master_type_; }
    bool has_own_master() const noexcept { return offloaded_ || master_type_ != param_type_; }
    bool is_offloaded() const noexcept { return offloaded_; }
    std::byte* host_gradient() const noexcept {
        return static_cast<std::byte*>(host_gradient_.data());
    }
    std::byte* host_param() const noexcept { return static_cast<std::byte*>(host_param_.data()); }
    /// What is gathered, from the master, after somebody wrote that.
    void refresh_param(ModelDevice& device, Stream stream);

    std::size_t param_bytes() const noexcept { return param_.bytes(); }
    std::size_t master_bytes() const noexcept { return offloaded_ ? 0 : master_.bytes(); }
    std::size_t host_bytes() const noexcept {
        return offloaded_ ? master_.bytes() + host_gradient_.bytes() + host_param_.bytes() : 0;
    }
    std::size_t gradient_bytes() const noexcept { return gradient_.bytes(); }

private:
    std::size_t shard_offset(
        std::size_t element_bytes) const noexcept;  // of this rank's shard in an arena, in bytes
    void describe_members(const BucketPlan& plan, std::span<const UnitToPlan> units,
                          const ShardMesh& mesh);
    void describe_runs(Member& member, const BucketPlan::Member& plan,
                       std::span<const UnitToPlan> units, std::size_t first_placement);

    std::size_t index_;
    std::string name_;
    bool trainable_;
    bool resident_;
    bool keeps_whole_gradient_;
    ShardLayout layout_;
    int shard_rank_;
    DataType param_type_;
    DataType master_type_;
    DataType gradient_type_;
    std::vector<Member> members_;
    CommunicatorBuffer param_;  // the shard, or the arena of resident buckets
    bool may_offload_;
    bool offloaded_ = false;
    CommunicatorBuffer master_;  // where it is of another type, or offloaded
    CommunicatorBuffer host_gradient_, host_param_;
    CommunicatorBuffer gradient_;  // the reduced shard, or the whole gradient that it lies in
    bool gradient_is_whole_ = false;
};

}  // namespace autolaunch::fsdp
