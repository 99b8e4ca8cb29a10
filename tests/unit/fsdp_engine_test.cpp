// The pure parts of the sharding engine: buckets, slots, groups of ranks, and the tree of sums.
#include "comm/self/self_backend.hpp"
#include "fsdp/bucket_plan.hpp"
#include "fsdp/gather_slots.hpp"
#include "fsdp/gradient_tree.hpp"
#include "fsdp/shard_mesh.hpp"
#include "fsdp/unit_order.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>

namespace fsdp_engine_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

// "t:0,1 f:2": trainable and frozen buckets with their units.
std::string text_of(const std::vector<BucketPlan>& buckets) {
    std::string text;
    for (const auto& bucket : buckets) {
        text += (text.empty() ? "" : " ") + std::string(bucket.trainable ? "t:" : "f:");
        for (const auto& member : bucket.members)
            text += std::to_string(member.unit_index) + ",";
        text.pop_back();
    }
    return text;
}

std::vector<float> sum_in_tree(const std::vector<std::vector<float>>& parts) {
    const auto device = ModelDevice::of(Communicator(std::make_shared<SelfBackend>()));
    const Stream stream = device->stream_for({});
    GradientTree tree;
    std::vector<float> result(parts[0].size());
    for (const auto& part : parts)
        tree.add(*device, result.data(), part.data(), part.size(), stream);
    tree.finish(*device, result.data(), result.size(), stream);
    return result;
}

}  // namespace

TEST_CASE("consecutive small units share a bucket, by trainability and by how they are resharded") {
    const std::vector<ParameterSpec> small = {{"w", {10}}}, large = {{"w", {100}}};
    const std::vector<ParameterSpec> both = {{"w", {10}}, {"frozen", {10}, false}},
                                     frozen = {{"w", {10}, false}};
    const BucketLimits limits{100, 1000, 4};
    const auto plan = [&](const std::vector<UnitToPlan>& units) {
        return text_of(plan_buckets(units, limits));
    };
    CHECK(plan({{"a", small}, {"b", small}, {"c", small}, {"d", small}}) == "t:0,1,2,3");
    CHECK(plan({{"a", large}, {"b", large}}) == "t:0 t:1");
    CHECK(plan({{"a", both}, {"b", both}}) == "t:0,1 f:0,1");
    CHECK(plan({{"a", small}, {"b", frozen}, {"c", small}}) == "t:0 t:2 f:1");
    CHECK(plan({{"a", small}, {"b", small, false}, {"c", small, false}}) == "t:0 t:1,2");
    CHECK(text_of(plan_buckets(std::vector<UnitToPlan>{{"a", small}, {"b", small}},
                               {0, 1000, 4})) == "t:0 t:1");
}

TEST_CASE("a bucket's arena has its units' parameters by full name, each on its own block") {
    const std::vector<ParameterSpec> first = {{"w", {130}}, {"frozen", {5}, false}},
                                     second = {{"w", {3}}};
    const std::vector<UnitToPlan> units = {{"a", first}, {"b", second}};
    const auto buckets = plan_buckets(units, {1 << 20, 1 << 20, 4});
    REQUIRE(buckets.size() == 2);
    const ShardLayout layout = layout_of(buckets[0], units, 2);
    REQUIRE(layout.placements().size() == 2);
    CHECK(layout.placements()[0].parameter.name == "a.w");
    CHECK(layout.placements()[1].parameter.name == "b.w");
    CHECK(layout.placements()[1].offset == 256);
    CHECK(layout.shard_elements() == 256);
}

TEST_CASE("slots keep the buckets used last; one that is in use keeps its memory") {
    std::array<std::byte, 2> memory{};
    GatherSlots slots({&memory[0], &memory[1]}, 1, [](std::size_t bytes) {
        return CommunicatorBuffer(std::make_shared<std::byte>(), bytes);
    });
    CHECK(slots.keep(0));
    CHECK(slots.keep(1));
    CHECK_FALSE(slots.keep(0));  // 1 is the oldest now
    auto* of_zero = slots.memory_of(0);
    auto* of_one = slots.memory_of(1);
    CHECK(of_zero != of_one);
    CHECK(slots.keep(2));
    CHECK(slots.memory_of(1) == nullptr);
    CHECK(slots.memory_of(2) == of_one);

    slots.hold(0);
    CHECK(slots.keep(3));  // 0 must go, but is in use
    CHECK_FALSE(slots.is_kept(0));
    CHECK(slots.memory_of(0) == of_zero);
    CHECK(slots.extra_bytes() == 1);
    CHECK_FALSE(slots.keep(0));  // and came back before it was let go: 2 goes
    CHECK(slots.memory_of(2) == nullptr);
    slots.let_go(0);
    CHECK(slots.memory_of(0) == of_zero);
    slots.clear();
    CHECK(slots.memory_of(0) == nullptr);
    CHECK(slots.memory_of(3) == nullptr);
    CHECK(slots.keep(0));
}

TEST_CASE(
    "memory of a bucket that is not in use reads as NaN, and has its values when it is again") {
    std::array<float, 4> memory = {1, 2, 3, 4};
    auto* const first = reinterpret_cast<std::byte*>(&memory[0]);
    auto* const second = reinterpret_cast<std::byte*>(&memory[2]);
    GatherSlots slots({first, second}, 2 * sizeof(float), {}, true);
    const auto at = [&](std::size_t bucket) {
        return reinterpret_cast<const float*>(slots.memory_of(bucket));
    };
    slots.keep(0);
    slots.hold(0);
    const float* const pointer = at(0);
    const float before = pointer[1];
    CHECK(before > 0);
    slots.let_go(0);
    CHECK(std::isnan(pointer[0]));
    CHECK(std::isnan(pointer[1]));
    slots.keep(0);
    slots.hold(0);
    CHECK(pointer[1] == before);
    slots.clear();  // its memory is its own until it is let go
    CHECK(pointer[1] == before);
    slots.let_go(0);
    CHECK(std::isnan(pointer[1]));

    slots.keep(1);  // another's values come, and are shown to it alone
    const_cast<float*>(at(1))[1] = 99;
    slots.hold(1);
    CHECK(at(1)[1] == 99);
    slots.let_go(1);
    CHECK(std::isnan(at(1)[1]));
}

TEST_CASE("groups of ranks by number and by node") {
    const std::vector<std::uint64_t> nodes = {7, 7, 9, 9, 7, 9};
    const auto groups = [&](ShardingStrategy strategy, int shard_group, int rank) {
        ShardedModelOptions options;
        options.strategy = strategy;
        options.shard_group = shard_group;
        const ShardGroups found = plan_shard_groups(options, nodes, rank);
        return std::array{found.group_count, found.group_size, found.group, found.rank_in_group};
    };
    CHECK(groups(ShardingStrategy::full_shard, 0, 4) == std::array{1, 6, 0, 4});
    CHECK(groups(ShardingStrategy::no_shard, 0, 4) == std::array{6, 1, 4, 0});
    CHECK(groups(ShardingStrategy::hybrid_shard, 2, 3) == std::array{3, 2, 1, 1});
    CHECK(groups(ShardingStrategy::hybrid_shard, 0, 4) == std::array{2, 3, 0, 2});
    CHECK(groups(ShardingStrategy::hybrid_shard, 0, 2) == std::array{2, 3, 1, 0});
    CHECK_THROWS_WITH_AS(groups(ShardingStrategy::hybrid_shard, 4, 0),
                         "shard_group 4 does not divide 6 ranks", Error);
    ShardedModelOptions by_node;
    by_node.strategy = ShardingStrategy::hybrid_shard;
    const std::vector<std::uint64_t> uneven = {7, 7, 9};
    CHECK_THROWS_WITH_AS(plan_shard_groups(by_node, uneven, 0),
                         "hybrid_shard: the nodes have different numbers of ranks", Error);
}

TEST_CASE("what the ranks' mesh is called") {
    const auto called = [](ShardingStrategy strategy, int replicas, int shards,
                           ShardMesh::Order order) {
        ShardMesh mesh;
        mesh.replica_count = replicas;
        mesh.shard_count = shards;
        mesh.order = order;
        const Arrangement arrangement = arrangement_of(mesh, strategy);
        std::string text = arrangement.strategy;
        for (const auto& dimension : arrangement.mesh)
            text += " " + dimension.name + " " + std::to_string(dimension.size);
        return text;
    };
    using Order = ShardMesh::Order;
    CHECK(called(ShardingStrategy::full_shard, 1, 4, Order::replicas_slowest) ==
          "full_shard shard 4");
    CHECK(called(ShardingStrategy::no_shard, 4, 1, Order::replicas_slowest) ==
          "no_shard replica 4");
    CHECK(called(ShardingStrategy::hybrid_shard, 2, 4, Order::replicas_slowest) ==
          "hybrid_shard replica 2 shard 4");
    CHECK(called(ShardingStrategy::hybrid_shard, 2, 4, Order::shards_slowest) ==
          "hybrid_shard shard 4 replica 2");
    CHECK(called(ShardingStrategy::hybrid_shard, 2, 4, Order::other) == "hybrid_shard");
}

TEST_CASE("the tree of sums is the same however its leaves are spread over ranks") {
    for (const std::size_t leaves : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u}) {
        CAPTURE(leaves);
        std::vector<std::vector<float>> parts(leaves, std::vector<float>(3));
        for (std::size_t leaf = 0; leaf < leaves; ++leaf)
            for (std::size_t i = 0; i < 3; ++i)
                parts[leaf][i] = std::sin(static_cast<float>(leaf * 3 + i)) *
                                 std::exp2(static_cast<float>(leaf % 7));
        const auto one_rank = sum_in_tree(parts);
        for (const std::size_t ranks : {2u, 4u, 8u}) {
            if (leaves % ranks != 0)
                continue;
            // Each micro-batch is summed over ranks pairwise, as the communicator does it, then
            // over micro-batches.
            std::vector<std::vector<float>> sums;
            for (std::size_t first = 0; first < leaves; first += ranks)
                sums.push_back(
                    sum_in_tree({parts.begin() + static_cast<std::ptrdiff_t>(first),
                                 parts.begin() + static_cast<std::ptrdiff_t>(first + ranks)}));
            CHECK(sum_in_tree(sums) == one_rank);
        }
    }
}

TEST_CASE("the frozen order says what comes next") {
    UnitOrder order;
    const std::vector<UnitEvent> step = {
        {UnitAction::gather, 0}, {UnitAction::reduce, 0}, {UnitAction::step, 0}};
    for (const auto& event : step) {
        CHECK(order.upcoming().empty());
        CHECK_FALSE(order.observe(event));
    }
    CHECK(order.upcoming().size() == 3);
    CHECK_FALSE(order.observe(step[0]));
    CHECK(order.latest() == step[0]);
    CHECK(order.upcoming().size() == 2);
    CHECK(order.observe(step[2]) == step[1]);
    CHECK(order.upcoming().size() == 2);
}

}  // namespace fsdp_engine_test
