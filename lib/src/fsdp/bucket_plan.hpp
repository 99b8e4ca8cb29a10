#pragma once
// Which units are gathered and reduced together. Pure: every rank, and who predicts memory,
// computes the same.
#include <autolaunch/fsdp/shard_layout.hpp>

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
};

/// merge_units() of memory_plan.hpp, for the trainable and for the frozen parameters of consecutive
/// units. Units that are resharded differently do not mix.
std::vector<BucketPlan> plan_buckets(std::span<const UnitToPlan> units, const BucketLimits& limits);

/// The bucket's arena; parameters have their full names, "<unit>.<parameter>".
ShardLayout layout_of(const BucketPlan& bucket, std::span<const UnitToPlan> units, int shard_count);

}  // namespace autolaunch::fsdp
