#include "base/refuse.hpp"
#include "fsdp/bucket_plan.hpp"
#include "fsdp/ordered_sums.hpp"
#include "fsdp/unit_memory.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iterator>
#include <string>

namespace autolaunch::fsdp {

namespace {

// One bucket's arena, in elements.
struct Arena {
    std::int64_t whole = 0, shard = 0;
    bool trainable = true;
    bool whole_parameters = false, whole_gradients = false;
};

// What the formulas need to know of several arenas together, in elements.
struct ArenaSums {
    std::int64_t whole = 0;
    std::int64_t shard = 0;
    std::int64_t largest = 0;
    std::int64_t count = 0;
};

template <class Chosen>
ArenaSums sum_of(std::span<const Arena> arenas, Chosen chosen) {
    ArenaSums sums;
    for (const Arena& arena : arenas) {
        if (!chosen(arena))
            continue;
        sums.whole += arena.whole;
        sums.shard += arena.shard;
        sums.largest = std::max(sums.largest, arena.whole);
        ++sums.count;
    }
    return sums;
}

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

std::int64_t bytes_of(DataType type) { return static_cast<std::int64_t>(size_of(type)); }

SlotRules slot_rules(const MemoryPlanOptions& options, int shards) {
    return {.strategy = options.strategy,
            .precision = options.precision,
            .shard_count = shards,
            .gather_slots = options.gather_slots,
            .reduce_slots = options.reduce_slots,
            .deterministic = options.deterministic,
            .keep_largest = options.keep_largest};
}

void add_parameters(MemoryPlan& plan, std::span<const Arena> arenas,
                    const MemoryPlanOptions& options) {
    const std::int64_t b = bytes_of(options.precision.param);
    for (const bool trainable : {true, false}) {
        const auto of_kind = [&](bool whole) {
            return sum_of(arenas, [&](const Arena& arena) {
                return arena.trainable == trainable && arena.whole_parameters == whole;
            });
        };
        const ArenaSums stay = of_kind(true), take_turns = of_kind(false);
        plan.parameters += b * (stay.whole + take_turns.shard);
        plan.gather_slots += slot_bytes(take_turns, options.gather_slots, options.precision.param);
    }
}

void add_gradients(MemoryPlan& plan, std::span<const Arena> arenas,
                   const MemoryPlanOptions& options, const SlotRules& rules) {
    const std::int64_t g = bytes_of(options.precision.reduce);
    const std::int64_t a = bytes_of(options.precision.accumulate);
    const auto of_kind = [&](bool whole) {
        return sum_of(arenas, [&](const Arena& arena) {
            return arena.trainable && arena.whole_gradients == whole;
        });
    };
    const ArenaSums stay = of_kind(true), take_turns = of_kind(false);
    plan.gradients =
        g * stay.whole + (rules.sums_in_place() ? 0 : a * stay.shard) + a * take_turns.shard;
    plan.reduce_slots = slot_bytes(take_turns, options.reduce_slots, options.precision.reduce);
    if (options.accumulate_without_sync)
        plan.unsynced_gradients = g * take_turns.whole;
}

// The table of the header, a strategy a line. `shards` is N.
MemoryPlan apply_formulas(std::span<const Arena> arenas, const MemoryPlanOptions& options,
                          int shards) {
    const ArenaSums trainable = sum_of(arenas, [](const Arena& arena) { return arena.trainable; });
    const Precision& precision = options.precision;
    const std::int64_t m = bytes_of(precision.master);
    MemoryPlan plan;
    add_parameters(plan, arenas, options);
    add_gradients(plan, arenas, options, slot_rules(options, shards));
    plan.masters = precision.param == precision.master ? 0 : m * trainable.shard;
    plan.optimizer = state_bytes_per_parameter(options.optimizer) * trainable.shard;
    if (options.deterministic)
        plan.gradient_trees =
            4 * trainable.shard * (std::bit_width(static_cast<unsigned>(options.reductions)) - 1);
    if (options.deterministic && options.on_gpus)
        plan.gradient_exchange = exchange_bytes(trainable, shards, options.ranks / shards);
    if (options.offload_optimizer) {
        plan.on_host =
            (m + bytes_of(precision.accumulate) + bytes_of(precision.param)) * trainable.shard +
            plan.optimizer;
        plan.masters = plan.optimizer = 0;
    }
    return plan;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// "1.25 GiB", "28.4 MiB".
std::string in_bytes(std::int64_t bytes) {
    constexpr double kMi = 1 << 20;
    const double mebibytes = static_cast<double>(bytes) / kMi;
    const bool large = mebibytes >= 1000;
    char text[32];
    std::snprintf(text, sizeof text, large ? "%.2f GiB" : "%.1f MiB",
                  large ? mebibytes / 1024 : mebibytes);
    return text;
}

constexpr const char* kMoreRanks = "more ranks divide it";
constexpr const char* kSmallerUnits = "smaller units make it less, more ranks do not";

bool is_full(ShardingStrategy strategy) {
    return strategy == ShardingStrategy::full_shard || strategy == ShardingStrategy::hybrid_shard;
}

const char* remedy_for_parameters(ShardingStrategy strategy) {
    return is_full(strategy) ? kMoreRanks : "full_shard cuts it over the ranks";
}
const char* remedy_for_gradients(ShardingStrategy strategy) {
    const bool whole =
        strategy == ShardingStrategy::no_shard || strategy == ShardingStrategy::shard_optimizer;
    return whole ? "shard_grad_op cuts it over the ranks" : kMoreRanks;
}
const char* remedy_for_state(ShardingStrategy strategy) {
    return strategy == ShardingStrategy::no_shard ? "shard_optimizer cuts it over the ranks"
                                                  : kMoreRanks;
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

MemoryPlan plan_memory_of(std::span<const UnitToPlan> units, const MemoryPlanOptions& options) {
    if (units.empty())
        refuse("the model has no units");
    const int shards = shard_count(options);
    const BucketLimits limits{options.merge_below_bytes, options.merge_cap_bytes,
                              static_cast<int>(size_of(options.precision.param))};
    auto buckets = plan_buckets(units, limits);
    choose_whole(buckets, units, slot_rules(options, shards));
    std::vector<Arena> arenas, bare;
    for (const BucketPlan& bucket : buckets) {
        const ShardLayout layout = layout_of(bucket, units, shards);
        std::int64_t elements = 0;
        for (const auto& placement : layout.placements())
            elements += placement.parameter.element_count();
        arenas.push_back({layout.arena_elements(), layout.shard_elements(), bucket.trainable,
                          bucket.whole_parameters, bucket.whole_gradients});
        bare.push_back(arenas.back());
        bare.back().whole = elements;
        bare.back().shard = divided_up(elements, shards);
    }
    MemoryPlan plan = apply_formulas(arenas, options, shards);
    plan.padding = plan.total() - apply_formulas(bare, options, shards).total();
    return plan;
}

MemoryPlan plan_memory(std::span<const std::vector<ParameterSpec>> units,
                       const MemoryPlanOptions& options) {
    std::vector<UnitToPlan> plans;
    for (const auto& unit : units)
        plans.push_back({std::to_string(plans.size()), unit});
    return plan_memory_of(plans, options);
}

std::string what_dominates(const MemoryPlan& plan, ShardingStrategy strategy) {
    struct Item {
        const char* name;
        std::int64_t bytes;
        const char* remedy;
    };
    const Item items[] = {
        {"parameters", plan.parameters, remedy_for_parameters(strategy)},
        {"masters", plan.masters, remedy_for_state(strategy)},
        {"gradients", plan.gradients, remedy_for_gradients(strategy)},
        {"optimizer", plan.optimizer, remedy_for_state(strategy)},
        {"gather slots", plan.gather_slots, kSmallerUnits},
        {"reduce slots", plan.reduce_slots, kSmallerUnits},
        {"whole gradients between micro-batches", plan.unsynced_gradients,
         "reduce_grads() in each micro-batch needs none"},
        {"gradient trees", plan.gradient_trees, "fewer micro-batches that reduce need fewer"},
        {"gradient parts", plan.gradient_exchange, kSmallerUnits}};
    const Item& most =
        *std::max_element(std::begin(items), std::end(items),
                          [](const Item& a, const Item& b) { return a.bytes < b.bytes; });
    const std::int64_t total = std::max<std::int64_t>(plan.total(), 1);
    return std::string(most.name) + ", " + in_bytes(most.bytes) + " of " + in_bytes(total) + " (" +
           std::to_string((100 * most.bytes + total / 2) / total) + "%): " + most.remedy;
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
