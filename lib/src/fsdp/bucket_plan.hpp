#pragma once
// Which units are gathered and reduced together. Pure: every rank, and who predicts memory,
// computes the same.
#include <autolaunch/fsdp/shard_layout.hpp>
#include <autolaunch/fsdp/sharding.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

struct UnitToPlan {
    std::string name;
    std::span<const ParameterSpec> parameters;
    bool reshard_after_forward = true;
};

struct BucketLimits {
    std::int64_t merge_below = 0;  ///< bytes: a bucket with fewer takes the next unit
    std::int64_t merge_cap = 0;    ///< bytes: no bucket of several units has more
    int element_bytes = 4;         ///< of a gathered parameter
};

/// One bucket: parameters of consecutive units, either all trainable or all frozen, in one arena.
struct BucketPlan {
    struct Member {
        std::size_t unit_index = 0;
        std::vector<std::size_t> parameters;  ///< indices into the unit's
    };
    bool trainable = true;
    bool reshard_after_forward = true;
    std::vector<Member> members;
    bool whole_parameters = false;  ///< they stay whole on every rank; else they take turns in
                                    ///< gather slots
    bool whole_gradients = false;   ///< likewise, and reduce slots
};

/// What decides which buckets stay whole.
struct SlotRules {
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    Precision precision = {};
    int shard_count = 1;
    int gather_slots = 2;
    int reduce_slots = 2;
    bool deterministic = false;
    bool keep_largest = true;

    /// The gradient's shard lies in the whole gradient, where that stays.
    bool sums_in_place() const noexcept {
        return precision.reduce == precision.accumulate && !deterministic;
    }
};

/// merge_units() of memory_plan.hpp, for the trainable and for the frozen parameters of consecutive
/// units. Units that are resharded differently do not mix.
std::vector<BucketPlan> plan_buckets(std::span<const UnitToPlan> units, const BucketLimits& limits);

/// Says of each bucket what stays whole: all that the strategy keeps whole, and with keep_largest
/// as many of the largest as makes the memory least. A slot is as large as the largest bucket that
/// takes turns in it, so one embedding beside small layers would otherwise be paid once a slot.
/// Since "all of them" is among the choices, full_shard never takes more than shard_grad_op, nor
/// that more than shard_optimizer.
void choose_whole(std::span<BucketPlan> buckets, std::span<const UnitToPlan> units,
                  const SlotRules& rules);

/// The bucket's arena; parameters have their full names, "<unit>.<parameter>".
ShardLayout layout_of(const BucketPlan& bucket, std::span<const UnitToPlan> units, int shard_count);

}  // namespace autolaunch::fsdp
