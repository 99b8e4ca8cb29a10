#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

using Units = std::vector<std::vector<ParameterSpec>>;

constexpr Precision kMixed = {.param = bf16, .reduce = bf16};
constexpr std::int64_t kMi = 1 << 20;

// Four layers of 3 Mi elements and an embedding of 8 Mi: no padding for up to 8 ranks.
Units layered() {
    Units units = {{{"wte", {8 * kMi}}}};
    for (int i = 0; i < 4; ++i)
        units.push_back({{"a", {2, kMi}}, {"b", {kMi}}});
    return units;
}
constexpr std::int64_t kP = 20 * kMi;  // of layered()
constexpr std::int64_t kU = 8 * kMi;

MemoryPlanOptions options(ShardingStrategy strategy, int ranks, Precision precision = kMixed) {
    return {.strategy = strategy, .precision = precision, .ranks = ranks, .merge_below_bytes = 0};
}

std::string refusal(const MemoryPlanOptions& asked, const Units& units = layered()) {
    try {
        plan_memory(units, asked);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("the table's strategies in bf16, with f32 masters and AdamW") {
    const MemoryPlan none = plan_memory(
        layered(), options(ShardingStrategy::no_shard, 8, {.param = bf16, .reduce = f32}));
    CHECK(none.total() == (14 + 4) * kP);
    CHECK(none.masters == 4 * kP);
    CHECK(none.optimizer == 8 * kP);

    // Whole bf16 gradients stay, and the f32 sums of this rank's part.
    const MemoryPlan zero1 = plan_memory(layered(), options(ShardingStrategy::shard_optimizer, 8));
    CHECK(zero1.total() == (2 + 2) * kP + 12 * kP / 8 + 4 * kP / 8);
    const auto in_place =
        options(ShardingStrategy::shard_optimizer, 8, {.param = bf16, .reduce = f32});
    CHECK(plan_memory(layered(), in_place).total() == (2 + 4) * kP + 12 * kP / 8);

    const MemoryPlan zero2 = plan_memory(layered(), options(ShardingStrategy::shard_grad_op, 8));
    CHECK(zero2.total() == 2 * kP + (12 + 4) * kP / 8 + 2 * 2 * kU);
    CHECK(zero2.gather_slots == 0);

    const MemoryPlan zero3 = plan_memory(layered(), options(ShardingStrategy::full_shard, 8));
    CHECK(zero3.total() == (12 + 4) * kP / 8 + 2 * kP / 8 + 4 * kU + 2 * 2 * kU);
    CHECK(zero3.gather_slots == 4 * kU);
    CHECK(zero3.reduce_slots == 4 * kU);
    CHECK(zero3.padding == 0);
}

TEST_CASE("f32 alone: the master is what ranks gather") {
    const MemoryPlan sharded = plan_memory(layered(), options(ShardingStrategy::full_shard, 4, {}));
    CHECK(sharded.masters == 0);
    CHECK(sharded.parameters == kP);  // 4 bytes, a quarter each
    CHECK(sharded.total() == 16 * kP / 4 + 2 * 4 * kU + 2 * 4 * kU);
    const MemoryPlan replicated =
        plan_memory(layered(), options(ShardingStrategy::no_shard, 4, {}));
    CHECK(replicated.total() == 16 * kP);
}

TEST_CASE("one rank holds everything once, whatever the strategy") {
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard})
        CHECK(plan_memory(layered(), options(strategy, 1, {})).total() == 16 * kP);
}

TEST_CASE("a hybrid mesh is a full shard of its group") {
    auto hybrid = options(ShardingStrategy::hybrid_shard, 32);
    hybrid.shard_group = 8;
    CHECK(plan_memory(layered(), hybrid) ==
          plan_memory(layered(), options(ShardingStrategy::full_shard, 8)));
    hybrid.shard_group = 5;
    CHECK(refusal(hybrid) == "a shard group of 5 does not divide 32 ranks");
    CHECK(refusal(options(ShardingStrategy::hybrid_shard, 8)) ==
          "a shard group of 0 does not divide 8 ranks");
    CHECK(refusal(options(ShardingStrategy::full_shard, 0)) == "0 ranks");
    CHECK(refusal(options(ShardingStrategy::full_shard, 2), {}) == "the model has no units");
}

TEST_CASE("optimizers by what they keep") {
    auto asked = options(ShardingStrategy::full_shard, 8);
    for (const auto& [kind, bytes] :
         {std::pair{OptimizerKind::adamw, 8}, std::pair{OptimizerKind::lion, 4},
          std::pair{OptimizerKind::sgd_momentum, 4}, std::pair{OptimizerKind::none, 0}}) {
        asked.optimizer = kind;
        CHECK(plan_memory(layered(), asked).optimizer == bytes * kP / 8);
    }
}

TEST_CASE("micro-batches that do not reduce keep whole gradients") {
    auto asked = options(ShardingStrategy::full_shard, 8);
    const auto before = plan_memory(layered(), asked).total();
    asked.accumulate_without_sync = true;
    CHECK(plan_memory(layered(), asked).total() == before + 2 * kP);
    asked.strategy = ShardingStrategy::no_shard;
    CHECK(plan_memory(layered(), asked).unsynced_gradients == 0);  // they are whole anyway
}

TEST_CASE("padding is ShardLayout's, and is counted in the items") {
    const Units odd = {{{"w", {1000}}, {"b", {3}}}};
    const ShardLayout layout(odd[0], 3);
    const MemoryPlan plan = plan_memory(odd, options(ShardingStrategy::full_shard, 3, {}));
    const std::int64_t shard = layout.shard_elements(), arena = layout.arena_elements();
    CHECK(plan.total() ==
          16 * shard + 4 * arena + 4 * arena);  // one unit needs one slot of each kind
    CHECK(plan.padding == 16 * (shard - 335) + 8 * (arena - 1003));
}

TEST_CASE("small units merge up to the cap, large ones stay") {
    using Sizes = std::vector<std::size_t>;
    const auto merge = [](std::vector<std::int64_t> bytes) { return merge_units(bytes, 8, 20); };
    CHECK(merge({10, 10, 10}) == Sizes{1, 1, 1});
    CHECK(merge({3, 3, 3, 3}) == Sizes{4});
    CHECK(merge({3, 18, 1}) == Sizes{1, 2});  // 3 + 18 is beyond the cap
    CHECK(merge({7, 12, 9}) == Sizes{2, 1});
    CHECK(merge({30, 2, 2}) == Sizes{1, 2});  // nothing joins a unit beyond the cap
    CHECK(merge({2}) == Sizes{1});
    CHECK(merge_units({}, 8, 20).empty());
    const std::vector<std::int64_t> small(100, 1);
    CHECK(merge_units(small, 0, 20) == Sizes(100, 1));

    auto asked = options(ShardingStrategy::full_shard, 2);
    asked.merge_below_bytes = 8 << 20;  // layers of 6 MiB merge in pairs
    CHECK(plan_memory(layered(), asked).gather_slots == 4 * kU);
    asked.merge_below_bytes = 32 << 20;
    CHECK(plan_memory(layered(), asked).gather_slots == 2 * 2 * (8 + 12) * kMi / 2);
}

TEST_CASE("the rough form is the exact one of equal layers") {
    for (const int ranks : {1, 2, 8})
        for (const auto strategy :
             {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
              ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard}) {
            const MemoryPlan rough = plan_memory(ModelSize{kP, 4, kU}, options(strategy, ranks));
            CHECK(rough == plan_memory(layered(), options(strategy, ranks)));
        }
    CHECK_THROWS_AS(plan_memory(ModelSize{0, 1, 0}, {}), Error);
    CHECK_THROWS_AS(plan_memory(ModelSize{10, 1, 11}, {}), Error);
    CHECK_THROWS_AS(plan_memory(ModelSize{10, 0, 0}, {}), Error);
}

TEST_CASE("figures of the ZeRO paper") {
    // Figure 1: 7.5B parameters on 64 ranks, 2 + 2 + 12 bytes: 120, 31.4, 16.6 and 1.9 GB. The
    // paper counts fp16 gradient shards and no slots.
    const ModelSize model = {7'500'000'000, 36, 0};
    const auto gigabytes = [&](ShardingStrategy strategy) {
        const auto asked = options(strategy, 64, {.param = f16, .reduce = f16, .accumulate = f16});
        const MemoryPlan plan = plan_memory(model, asked);
        return static_cast<double>(plan.total() - plan.gather_slots - plan.reduce_slots) / 1e9;
    };
    CHECK(gigabytes(ShardingStrategy::no_shard) == doctest::Approx(120.0).epsilon(0.001));
    CHECK(gigabytes(ShardingStrategy::shard_optimizer) == doctest::Approx(31.4).epsilon(0.005));
    CHECK(gigabytes(ShardingStrategy::shard_grad_op) == doctest::Approx(16.6).epsilon(0.005));
    CHECK(gigabytes(ShardingStrategy::full_shard) == doctest::Approx(1.88).epsilon(0.005));
}

TEST_CASE("strategies have their names") {
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard,
                                ShardingStrategy::hybrid_shard})
        CHECK(sharding_strategy_from(name_of(strategy)) == strategy);
    CHECK(name_of(ShardingStrategy::shard_grad_op) == "shard_grad_op");
    CHECK_FALSE(sharding_strategy_from("FULL_SHARD"));
}

TEST_CASE("frozen parameters are gathered, in slots of their own, and have nothing else") {
    const std::vector<std::vector<ParameterSpec>> units = {
        {{"w", {128 * 40}, false}, {"adapter", {128 * 8}}},
        {{"w", {128 * 30}, false}, {"adapter", {128 * 4}}}};
    MemoryPlanOptions options;
    options.precision = {.param = bf16};
    options.ranks = 2;
    options.merge_below_bytes = 0;
    const MemoryPlan plan = plan_memory(units, options);
    constexpr std::int64_t kFrozen = 128 * 70, kTrained = 128 * 12;
    CHECK(plan.parameters == 2 * (kFrozen + kTrained) / 2);
    CHECK(plan.masters == 4 * kTrained / 2);
    CHECK(plan.gradients == 4 * kTrained / 2);
    CHECK(plan.optimizer == 8 * kTrained / 2);
    CHECK(plan.gather_slots == 2 * 2 * 128 * (40 + 8));
    CHECK(plan.reduce_slots == 2 * 4 * 128 * 8);
    options.strategy = ShardingStrategy::shard_grad_op;
    CHECK(plan_memory(units, options).parameters == 2 * (kFrozen + kTrained));
    CHECK(plan_memory(units, options).gather_slots == 0);
}

TEST_CASE("deterministic sums cost a shard for each doubling of what is summed") {
    const std::vector<std::vector<ParameterSpec>> units = {{{"w", {128 * 40}}}};
    MemoryPlanOptions options;
    options.ranks = 2;
    const MemoryPlan plain = plan_memory(units, options);
    options.deterministic = true;
    CHECK(plan_memory(units, options) == plain);
    for (const auto& [reductions, sums] : {std::pair{2, 1}, {3, 1}, {4, 2}, {9, 3}}) {
        options.reductions = reductions;
        CHECK(plan_memory(units, options).total() ==
              plain.total() + std::int64_t{4} * 64 * 40 * sums);
    }
    options.reductions = 1;
    options.on_gpus = true;  // one rank's part of a shard is on its way
    CHECK(plan_memory(units, options).total() == plain.total() + std::int64_t{4} * 64 * 40);
    options.strategy = ShardingStrategy::no_shard;
    options.ranks = 4;  // each copy sums a fourth, in whole blocks of 128 elements
    CHECK(plan_memory(units, options).gradient_exchange == std::int64_t{4} * 3 * 128 * 10);
    const std::vector<std::vector<ParameterSpec>> large = {{{"w", {std::int64_t{1} << 30}}}};
    CHECK(plan_memory(large, options).gradient_exchange <= std::int64_t{64} << 20);
    CHECK(plan_memory(large, options).gradient_exchange > std::int64_t{63} << 20);
    options.ranks = 2;
    options.on_gpus = false;
    options.strategy = ShardingStrategy::shard_optimizer;
    CHECK(plan_memory(units, options).gradients ==
          4 * 128 * 40 + 4 * 64 * 40);  // whole ones, and the sum's shard
    options.reductions = 0;
    CHECK_THROWS_AS(plan_memory(units, options), Error);
}

TEST_CASE("an optimizer that is offloaded takes the host's memory") {
    const std::vector<std::vector<ParameterSpec>> units = {
        {{"w", {128 * 40}}, {"frozen", {128}, false}}};
    MemoryPlanOptions options;
    options.ranks = 2;
    options.precision = {.param = bf16};
    const MemoryPlan plain = plan_memory(units, options);
    options.offload_optimizer = true;
    const MemoryPlan plan = plan_memory(units, options);
    CHECK(plan.masters == 0);
    CHECK(plan.optimizer == 0);
    CHECK(plan.total() == plain.total() - plain.masters - plain.optimizer);
    CHECK(plan.on_host == (4 + 8 + 4 + 2) * 64 * 40);
}
