#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace memory_plan_test {

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
constexpr std::int64_t kW = 8 * kMi;   // the embedding, which stays whole
constexpr std::int64_t kU = 3 * kMi;   // a layer

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

    // The embedding's gradient stays whole, beside its f32 shard; layers take turns in two slots.
    const MemoryPlan zero2 = plan_memory(layered(), options(ShardingStrategy::shard_grad_op, 8));
    CHECK(zero2.total() == 2 * kP + (12 + 4) * kP / 8 + 2 * kW + 2 * 2 * kU);
    CHECK(zero2.gather_slots == 0);
    CHECK(zero2.gradients == 4 * kP / 8 + 2 * kW);

    // And so do its parameters.
    const MemoryPlan zero3 = plan_memory(layered(), options(ShardingStrategy::full_shard, 8));
    CHECK(zero3.parameters == 2 * kW + 2 * (kP - kW) / 8);
    CHECK(zero3.gather_slots == 2 * 2 * kU);
    CHECK(zero3.reduce_slots == 2 * 2 * kU);
    CHECK(zero3.total() == (12 + 4) * kP / 8 + zero3.parameters + 2 * kW + 4 * kU + 4 * kU);
    CHECK(zero3.padding == 0);

    auto in_turns = options(ShardingStrategy::full_shard, 8);
    in_turns.keep_largest = false;
    const MemoryPlan turns = plan_memory(layered(), in_turns);
    CHECK(turns.gather_slots == 2 * 2 * kW);
    CHECK(turns.reduce_slots == 2 * 2 * kW);
    CHECK(turns.total() == (12 + 4) * kP / 8 + 2 * kP / 8 + 4 * kW + 4 * kW);
}

TEST_CASE("f32 alone: the master is what ranks gather") {
    const MemoryPlan sharded = plan_memory(layered(), options(ShardingStrategy::full_shard, 4, {}));
    CHECK(sharded.masters == 0);
    CHECK(sharded.parameters == 4 * kW + (kP - kW));  // 4 bytes, a quarter each of the layers
    CHECK(sharded.gradients == sharded.parameters);   // the embedding's shard lies in the whole
    CHECK(sharded.total() == 8 * kP / 4 + 2 * sharded.parameters + 2 * 4 * kU + 2 * 4 * kU);
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
    CHECK(plan_memory(layered(), asked).total() == before + 2 * (kP - kW));
    asked.strategy = ShardingStrategy::no_shard;
    CHECK(plan_memory(layered(), asked).unsynced_gradients == 0);  // they are whole anyway
}

TEST_CASE("padding is ShardLayout's, and is counted in the items") {
    const Units odd = {{{"w", {1000}}, {"b", {3}}}};
    const ShardLayout layout(odd[0], 3);
    const MemoryPlan plan = plan_memory(odd, options(ShardingStrategy::full_shard, 3, {}));
    const std::int64_t shard = layout.shard_elements(), arena = layout.arena_elements();
    // A single bucket stays whole: a slot of its own would take its shard more.
    CHECK(plan.total() == 8 * shard + 4 * arena + 4 * arena);
    CHECK(plan.padding == 8 * (shard - 335) + 8 * (arena - 1003));
}

TEST_CASE("the largest buckets stay whole where slots of their size would take more") {
    const auto planned = [](std::vector<std::int64_t> sizes, int ranks, auto... change) {
        Units units;
        for (const std::int64_t size : sizes)
            units.push_back({{"w", {size * 1024}}});
        auto asked = options(ShardingStrategy::full_shard, ranks, {});
        (change(asked), ...);
        return plan_memory(units, asked);
    };
    constexpr std::int64_t kKi = 4 * 1024;
    // Equal layers: nothing is gained.
    CHECK(planned({8, 8, 8, 8, 8, 8}, 2).gather_slots == 2 * 8 * kKi);
    CHECK(planned({8, 8, 8, 8, 8, 8}, 2).parameters == 24 * kKi);
    CHECK(planned({8, 8, 8, 8, 8, 8}, 2).reduce_slots == 2 * 8 * kKi);
    // So few that whole they take less than half of them and two slots.
    CHECK(planned({8, 8, 8}, 2).gather_slots == 0);
    CHECK(planned({8, 8, 8}, 2).parameters == 24 * kKi);
    CHECK(planned({8, 8, 8}, 4).gather_slots == 2 * 8 * kKi);
    CHECK(planned({8, 8, 8, 8}, 2).gather_slots == 2 * 8 * kKi);
    // Two large ones, an embedding and a head: whole on two ranks, in turns where shards are small.
    CHECK(planned({40, 16, 16, 16, 16, 40}, 2).gather_slots == 2 * 16 * kKi);
    CHECK(planned({40, 16, 16, 16, 16, 40}, 2).parameters == (80 + 32) * kKi);
    CHECK(planned({40, 16, 16, 16, 16, 40}, 8).gather_slots == 2 * 40 * kKi);
    // One slot a kind needs no second one of that size.
    CHECK(planned({40, 16, 16, 16, 16, 16}, 2, [](auto& asked) {
              asked.gather_slots = 1;
          }).gather_slots == 16 * kKi);
    CHECK(planned({20, 16, 16, 16, 16, 16}, 8, [](auto& asked) {
              asked.gather_slots = 1;
          }).gather_slots == 20 * kKi);
}

TEST_CASE("of random models no strategy takes more than one that shards less") {
    std::mt19937_64 random(20);
    const auto below = [&](int end) {
        return static_cast<int>(random() % static_cast<std::uint64_t>(end));
    };
    const auto type = [&] {
        return std::array{f32, bf16, f16}[static_cast<std::size_t>(below(3))];
    };
    int kept = 0, in_turns = 0;
    for (int i = 0; i < 4000; ++i) {
        Units units;
        for (int left = 1 + below(20); left > 0; --left) {
            const std::int64_t most = below(6) == 0 ? 2'000'000 : 200'000;
            auto& unit = units.emplace_back();
            for (int tensors = 1 + below(3); tensors > 0; --tensors)
                unit.push_back({"p" + std::to_string(tensors),
                                {1 + static_cast<std::int64_t>(random() % std::uint64_t(most))},
                                below(10) > 0});
        }
        MemoryPlanOptions asked;
        asked.precision.param = type();
        asked.precision.reduce = type();
        asked.precision.accumulate = below(2) == 0 ? f32 : asked.precision.reduce;
        asked.ranks = 1 + below(16);
        asked.shard_group = asked.ranks;
        asked.gather_slots = 1 + below(4);
        asked.reduce_slots = 1 + below(4);
        asked.merge_below_bytes = below(2) * 400'000;
        asked.deterministic = below(4) == 0;
        asked.reductions = 1 + below(5);
        asked.offload_optimizer = below(4) == 0;
        const auto with = [&](ShardingStrategy strategy, bool keep_largest = true) {
            asked.strategy = strategy;
            asked.keep_largest = keep_largest;
            return plan_memory(units, asked);
        };
        const MemoryPlan full = with(ShardingStrategy::full_shard);
        const MemoryPlan grad_op = with(ShardingStrategy::shard_grad_op);
        CAPTURE(i);
        REQUIRE(full.total() <= grad_op.total());
        REQUIRE(grad_op.total() <= with(ShardingStrategy::shard_optimizer).total());
        REQUIRE(full == with(ShardingStrategy::hybrid_shard));
        const MemoryPlan turns = with(ShardingStrategy::full_shard, false);
        REQUIRE(full.total() <= turns.total());
        (full == turns ? in_turns : kept) += 1;
    }
    CHECK(kept > 400);  // both are met
    CHECK(in_turns > 400);
}

TEST_CASE("what dominates is named, with what would make it less") {
    auto asked = options(ShardingStrategy::full_shard, 2, {});
    CHECK(what_dominates(plan_memory(layered(), asked), asked.strategy) ==
          "optimizer, 80.0 MiB of 240.0 MiB (33%): more ranks divide it");
    asked.ranks = 1024;
    CHECK(what_dominates(plan_memory(layered(), asked), asked.strategy).find("divide it") !=
          std::string::npos);
    const Units large(8, {{"w", {400 * kMi}}});
    CHECK(
        what_dominates(plan_memory(large, asked), asked.strategy) ==
        "gather slots, 3.12 GiB of 6.30 GiB (50%): smaller units make it less, more ranks do not");
    asked.strategy = ShardingStrategy::no_shard;
    asked.optimizer = OptimizerKind::none;
    CHECK(what_dominates(plan_memory(layered(), asked), asked.strategy) ==
          "parameters, 80.0 MiB of 160.0 MiB (50%): full_shard cuts it over the ranks");
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
    asked.keep_largest = false;
    CHECK(plan_memory(layered(), asked).gather_slots == 4 * kW);
    asked.merge_below_bytes = 32 << 20;
    CHECK(plan_memory(layered(), asked).gather_slots == 2 * 2 * (8 + 12) * kMi / 2);
}

TEST_CASE("the rough form is the exact one of equal layers") {
    for (const int ranks : {1, 2, 8})
        for (const auto strategy :
             {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
              ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard}) {
            const MemoryPlan rough = plan_memory(ModelSize{kP, 4, kW}, options(strategy, ranks));
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
    options.keep_largest = false;
    const MemoryPlan plan = plan_memory(units, options);
    constexpr std::int64_t kFrozen = 128 * 70, kTrained = 128 * 12;
    CHECK(plan.parameters == 2 * (kFrozen + kTrained) / 2);
    CHECK(plan.masters == 4 * kTrained / 2);
    CHECK(plan.gradients == 4 * kTrained / 2);
    CHECK(plan.optimizer == 8 * kTrained / 2);
    CHECK(plan.gather_slots == 2 * 2 * 128 * (40 + 8));
    CHECK(plan.reduce_slots == 2 * 4 * 128 * 8);
    options.keep_largest = true;  // two of a kind: whole they are no more than shards and slots
    CHECK(plan_memory(units, options).parameters == 2 * (kFrozen + kTrained));
    options.strategy = ShardingStrategy::shard_grad_op;
    CHECK(plan_memory(units, options).parameters == 2 * (kFrozen + kTrained));
    CHECK(plan_memory(units, options).gather_slots == 0);
}

TEST_CASE("deterministic sums cost a shard for each doubling of what is summed") {
    const std::vector<std::vector<ParameterSpec>> units = {{{"w", {128 * 40}}}};
    MemoryPlanOptions options;
    options.ranks = 2;
    options.keep_largest = false;
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

}  // namespace memory_plan_test
