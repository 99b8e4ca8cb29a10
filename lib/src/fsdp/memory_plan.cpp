#include "base/refuse.hpp"
#include "fsdp/bucket_plan.hpp"
#include "fsdp/ordered_sums.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

namespace autolaunch::fsdp {

namespace {

// What the formulas need to know of all arenas together, in elements.
struct ArenaSums {
    std::int64_t whole = 0;    // P
    std::int64_t shard = 0;    // P/N
    std::int64_t largest = 0;  // U
    std::int64_t count = 0;
};

struct ModelSums {
    ArenaSums trainable, frozen;
};

// Ranks that share one copy of the masters: N of the formulas.
int shard_count(const MemoryPlanOptions& options) {
    if (options.ranks < 1)
        refuse(std::to_string(options.ranks) + " ranks");
    if (options.reductions < 1)
        refuse(std::to_string(options.reductions) + " reductions in a step");
    if (options.gather_slots < 1 || options.reduce_slots < 1)
        refuse("a model needs a gather and a reduce slot");
    switch (options.strategy) {
        case ShardingStrategy::no_shard:
            return 1;
        case ShardingStrategy::hybrid_shard:
            if (options.shard_group < 1 || options.ranks % options.shard_group != 0)
                refuse("a shard group of " + std::to_string(options.shard_group) +
                           " does not divide " + std::to_string(options.ranks) + " ranks",
                       "hybrid_shard cuts each copy over the ranks of one group, usually a node's");
            return options.shard_group;
        default:
            return options.ranks;
    }
}

std::int64_t slot_bytes(const ArenaSums& arenas, int slots, DataType type) {
    return std::min<std::int64_t>(slots, arenas.count) * arenas.largest *
           static_cast<std::int64_t>(size_of(type));
}

std::int64_t exchange_bytes(const ArenaSums& arenas, int shards, int copies) {
    const auto shard = static_cast<std::size_t>((arenas.largest + shards - 1) / shards);
    return 4 * static_cast<std::int64_t>(exchange_elements(shard, static_cast<std::size_t>(shards),
                                                           static_cast<std::size_t>(copies)));
}

// The table of the header, a strategy a line. `shards` is N.
MemoryPlan apply_formulas(const ModelSums& model, const MemoryPlanOptions& options, int shards) {
    const ArenaSums& arenas = model.trainable;
    const auto b = static_cast<std::int64_t>(size_of(options.precision.param));
    const auto g = static_cast<std::int64_t>(size_of(options.precision.reduce));
    const auto a = static_cast<std::int64_t>(size_of(options.precision.accumulate));
    const auto m = static_cast<std::int64_t>(size_of(options.precision.master));
    const bool one_array = options.precision.param == options.precision.master;
    const bool in_place =
        options.precision.reduce == options.precision.accumulate && !options.deterministic;
    const bool parameters_stay = options.strategy == ShardingStrategy::shard_grad_op ||
                                 options.strategy == ShardingStrategy::shard_optimizer ||
                                 shards == 1;
    const bool gradients_stay =
        options.strategy == ShardingStrategy::shard_optimizer || shards == 1;

    MemoryPlan plan;
    plan.parameters = b * (parameters_stay ? arenas.whole + model.frozen.whole
                                           : arenas.shard + model.frozen.shard);
    plan.masters = one_array ? 0 : m * arenas.shard;
    plan.gradients =
        gradients_stay ? g * arenas.whole + (in_place ? 0 : a * arenas.shard) : a * arenas.shard;
    plan.optimizer = state_bytes_per_parameter(options.optimizer) * arenas.shard;
    if (!parameters_stay)
        for (const ArenaSums* each : {&arenas, &model.frozen})
            plan.gather_slots += slot_bytes(*each, options.gather_slots, options.precision.param);
    if (!gradients_stay)
        plan.reduce_slots = slot_bytes(arenas, options.reduce_slots, options.precision.reduce);
    if (options.deterministic)
        plan.gradient_trees =
            4 * arenas.shard * (std::bit_width(static_cast<unsigned>(options.reductions)) - 1);
    if (options.deterministic && options.on_gpus)
        plan.gradient_exchange = exchange_bytes(arenas, shards, options.ranks / shards);
    if (options.offload_optimizer) {
        plan.on_host = (m + a + b) * arenas.shard + plan.optimizer;
        plan.masters = plan.optimizer = 0;
    }
    if (!gradients_stay && options.accumulate_without_sync)
        plan.unsynced_gradients = g * arenas.whole;
    return plan;
}

MemoryPlan with_padding(const ModelSums& arenas, const ModelSums& bare,
                        const MemoryPlanOptions& options, int shards) {
    MemoryPlan plan = apply_formulas(arenas, options, shards);
    plan.padding = plan.total() - apply_formulas(bare, options, shards).total();
    return plan;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

void add_arena(ArenaSums& sums, std::int64_t whole, std::int64_t shard) {
    sums.whole += whole;
    sums.shard += shard;
    sums.largest = std::max(sums.largest, whole);
    ++sums.count;
}

}  // namespace

std::string_view name_of(OptimizerKind kind) noexcept {
    switch (kind) {
        case OptimizerKind::none:
            return "none";
        case OptimizerKind::sgd_momentum:
            return "SGD with momentum";
        case OptimizerKind::lion:
            return "Lion";
        case OptimizerKind::adamw:
            return "AdamW";
    }
    return "unknown";
}

std::vector<std::size_t> merge_units(std::span<const std::int64_t> unit_bytes,
                                     std::int64_t merge_below, std::int64_t cap) {
    std::vector<std::size_t> buckets;
    std::vector<std::int64_t> bytes;
    for (const std::int64_t unit : unit_bytes) {
        if (!bytes.empty() && bytes.back() < merge_below && bytes.back() + unit <= cap) {
            bytes.back() += unit;
            ++buckets.back();
        } else {
            bytes.push_back(unit);
            buckets.push_back(1);
        }
    }
    const std::size_t last = buckets.size() - 1;
    if (buckets.size() > 1 && bytes[last] < merge_below && bytes[last - 1] + bytes[last] <= cap) {
        buckets[last - 1] += buckets[last];
        buckets.pop_back();
    }
    return buckets;
}

MemoryPlan plan_memory(std::span<const std::vector<ParameterSpec>> units,
                       const MemoryPlanOptions& options) {
    if (units.empty())
        refuse("the model has no units");
    const int shards = shard_count(options);
    std::vector<UnitToPlan> plans;
    for (const auto& unit : units)
        plans.push_back({std::to_string(plans.size()), unit});
    const BucketLimits limits{options.merge_below_bytes, options.merge_cap_bytes,
                              static_cast<int>(size_of(options.precision.param))};
    ModelSums arenas, bare;
    for (const BucketPlan& bucket : plan_buckets(plans, limits)) {
        const ShardLayout layout = layout_of(bucket, plans, shards);
        std::int64_t elements = 0;
        for (const auto& placement : layout.placements())
            elements += placement.parameter.element_count();
        add_arena(bucket.trainable ? arenas.trainable : arenas.frozen, layout.arena_elements(),
                  layout.shard_elements());
        add_arena(bucket.trainable ? bare.trainable : bare.frozen, elements,
                  divided_up(elements, shards));
    }
    return with_padding(arenas, bare, options, shards);
}

MemoryPlan plan_memory(const ModelSize& model, const MemoryPlanOptions& options) {
    constexpr std::int64_t kMostLayers = 1'000'000;
    if (model.parameters < 1 || model.layers < 1 || model.layers > kMostLayers ||
        model.largest_unit < 0 || model.largest_unit > model.parameters)
        refuse("a model of " + std::to_string(model.parameters) + " parameters in " +
               std::to_string(model.layers) + " layers, with " +
               std::to_string(model.largest_unit) + " in the largest unit");
    // One tensor a unit; ShardLayout's padding is then what it is in a real model but for 64
    // elements a tensor.
    std::vector<std::vector<ParameterSpec>> units;
    if (model.largest_unit > 0)
        units.push_back({{"unit", {model.largest_unit}}});
    const std::int64_t in_layers = model.parameters - model.largest_unit;
    for (std::int64_t i = 0; i < model.layers; ++i) {
        const std::int64_t elements =
            in_layers / model.layers + (i < in_layers % model.layers ? 1 : 0);
        if (elements > 0)
            units.push_back({{"unit", {elements}}});
    }
    return plan_memory(units, options);
}

}  // namespace autolaunch::fsdp
