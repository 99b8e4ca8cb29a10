#include "fsdp/bucket_plan.hpp"

#include <autolaunch/fsdp/memory_plan.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::fsdp {

namespace {

// Consecutive units' parameters of one trainability that may share buckets.
struct Run {
    bool trainable = true;
    bool reshard_after_forward = true;
    std::vector<BucketPlan::Member> members;
    std::vector<std::int64_t> bytes;  // of each member, without padding
};

std::vector<Run> runs_of(std::span<const UnitToPlan> units, bool trainable, int element_bytes) {
    std::vector<Run> runs;
    for (std::size_t index = 0; index < units.size(); ++index) {
        BucketPlan::Member member{index, {}};
        std::int64_t bytes = 0;
        for (std::size_t i = 0; i < units[index].parameters.size(); ++i) {
            if (units[index].parameters[i].trainable != trainable)
                continue;
            bytes += units[index].parameters[i].element_count() * element_bytes;
            member.parameters.push_back(i);
        }
        if (member.parameters.empty())
            continue;
        const bool reshard = units[index].reshard_after_forward;
        const bool goes_on = !runs.empty() && runs.back().reshard_after_forward == reshard &&
                             runs.back().members.back().unit_index + 1 == index;
        if (!goes_on)
            runs.push_back({trainable, reshard, {}, {}});
        runs.back().members.push_back(std::move(member));
        runs.back().bytes.push_back(bytes);
    }
    return runs;
}

}  // namespace

std::vector<BucketPlan> plan_buckets(std::span<const UnitToPlan> units,
                                     const BucketLimits& limits) {
    std::vector<BucketPlan> buckets;
    for (const bool trainable : {true, false}) {
        for (Run& run : runs_of(units, trainable, limits.element_bytes)) {
            auto member = run.members.begin();
            for (const std::size_t count :
                 merge_units(run.bytes, limits.merge_below, limits.merge_cap)) {
                const auto end = member + static_cast<std::ptrdiff_t>(count);
                buckets.push_back(
                    {trainable,
                     run.reshard_after_forward,
                     {std::make_move_iterator(member), std::make_move_iterator(end)}});
                member = end;
            }
        }
    }
    return buckets;
}

ShardLayout layout_of(const BucketPlan& bucket, std::span<const UnitToPlan> units,
                      int shard_count) {
    std::vector<ParameterSpec> parameters;
    for (const auto& member : bucket.members) {
        for (const std::size_t index : member.parameters) {
            ParameterSpec parameter = units[member.unit_index].parameters[index];
            parameter.name = units[member.unit_index].name + "." + parameter.name;
            parameters.push_back(std::move(parameter));
        }
    }
    return ShardLayout(parameters, shard_count);
}

}  // namespace autolaunch::fsdp
