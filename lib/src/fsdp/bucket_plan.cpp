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

// A bucket that may take turns in slots, with its bytes in one, and what it takes more than so
// when it stays whole.
struct Candidate {
    BucketPlan* bucket = nullptr;
    std::int64_t slot_bytes = 0;
    std::int64_t cost_of_staying = 0;
};

// How many of them, the largest first, stay whole where the memory is least; of equal choices the
// fewest.
std::size_t how_many_stay(std::span<const Candidate> largest_first, int slots) {
    std::size_t best = 0;
    std::int64_t least = 0, staying = 0;
    for (std::size_t count = 0; count <= largest_first.size(); ++count) {
        const auto turns = static_cast<std::int64_t>(largest_first.size() - count);
        const std::int64_t in_slots =
            turns == 0 ? 0 : std::min<std::int64_t>(slots, turns) * largest_first[count].slot_bytes;
        if (count == 0 || staying + in_slots < least) {
            best = count;
            least = staying + in_slots;
        }
        if (turns > 0)
            staying += largest_first[count].cost_of_staying;
    }
    return best;
}

void keep_largest(std::vector<Candidate> candidates, int slots, bool BucketPlan::*stays) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.slot_bytes > b.slot_bytes; });
    const std::size_t count = how_many_stay(candidates, slots);
    for (std::size_t i = 0; i < count; ++i)
        candidates[i].bucket->*stays = true;
}

}  // namespace

void choose_whole(std::span<BucketPlan> buckets, std::span<const UnitToPlan> units,
                  const SlotRules& rules) {
    const auto bytes = [](DataType type) { return static_cast<std::int64_t>(size_of(type)); };
    const bool parameters_stay = rules.shard_count == 1 ||
                                 rules.strategy == ShardingStrategy::shard_grad_op ||
                                 rules.strategy == ShardingStrategy::shard_optimizer;
    const bool gradients_stay =
        rules.shard_count == 1 || rules.strategy == ShardingStrategy::shard_optimizer;
    // Parameters of trainable and of frozen buckets have slots of their own.
    std::vector<Candidate> trainable, frozen, gradients;
    for (BucketPlan& bucket : buckets) {
        bucket.whole_parameters = parameters_stay || !bucket.reshard_after_forward;
        bucket.whole_gradients = bucket.trainable && gradients_stay;
        const ShardLayout layout = layout_of(bucket, units, rules.shard_count);
        const std::int64_t arena = layout.arena_elements(), shard = layout.shard_elements();
        const std::int64_t b = bytes(rules.precision.param), g = bytes(rules.precision.reduce);
        if (!bucket.whole_parameters)
            (bucket.trainable ? trainable : frozen)
                .push_back({&bucket, b * arena, b * (arena - shard)});
        if (bucket.trainable && !gradients_stay)
            gradients.push_back(
                {&bucket, g * arena, g * (rules.sums_in_place() ? arena - shard : arena)});
    }
    if (!rules.keep_largest)
        return;
    keep_largest(std::move(trainable), rules.gather_slots, &BucketPlan::whole_parameters);
    keep_largest(std::move(frozen), rules.gather_slots, &BucketPlan::whole_parameters);
    keep_largest(std::move(gradients), rules.reduce_slots, &BucketPlan::whole_gradients);
}

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
