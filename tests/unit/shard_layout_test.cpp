#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace shard_layout_test {

using namespace autolaunch;
using fsdp::ParameterSpec;
using fsdp::ShardLayout;

namespace {

// The message and the hint of what `action` throws; empty when it throws nothing.
template <class Action>
std::string thrown_by(Action action) {
    try {
        action();
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        return std::string(error.what()) + " | " + error.hint();
    }
    return {};
}

std::vector<ParameterSpec> random_parameters(std::mt19937& random) {
    std::uniform_int_distribution<int> how_many(1, 12), dimensions(0, 3), extent(1, 40);
    std::vector<ParameterSpec> parameters(static_cast<std::size_t>(how_many(random)));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        parameters[i].name = "p" + std::to_string(i);
        for (int d = dimensions(random); d > 0; --d)
            parameters[i].shape.push_back(extent(random));
    }
    return parameters;
}

// Every element of every parameter is in exactly one interval, at the place the arena has it.
void check_cover(const ShardLayout& layout) {
    std::vector<std::vector<int>> owners;
    for (const auto& placement : layout.placements())
        owners.emplace_back(static_cast<std::size_t>(placement.parameter.element_count()), 0);
    for (int rank = 0; rank < layout.world_size(); ++rank) {
        std::int64_t end_of_last = 0;
        for (const auto& interval : layout.intervals(rank)) {
            REQUIRE(interval.count > 0);
            REQUIRE(interval.shard_offset >= end_of_last);
            end_of_last = interval.shard_offset + interval.count;
            REQUIRE(end_of_last <= layout.shard_elements());
            const auto& placement = layout.placements()[interval.parameter_index];
            REQUIRE(rank * layout.shard_elements() + interval.shard_offset ==
                    placement.offset + interval.parameter_offset);
            for (std::int64_t i = 0; i < interval.count; ++i)
                ++owners[interval.parameter_index].at(
                    static_cast<std::size_t>(interval.parameter_offset + i));
        }
    }
    for (const auto& parameter : owners)
        for (const int count : parameter)
            REQUIRE(count == 1);
}

}  // namespace

TEST_CASE("intervals cover every element once for random models and world sizes 1 to 9") {
    std::mt19937 random(7);
    for (int round = 0; round < 40; ++round) {
        const auto parameters = random_parameters(random);
        for (int world_size = 1; world_size <= 9; ++world_size) {
            const ShardLayout layout(parameters, world_size);
            CHECK(layout.arena_elements() == world_size * layout.shard_elements());
            CHECK(layout.shard_elements() % 128 == 0);
            for (const auto& placement : layout.placements())
                CHECK(placement.offset % ShardLayout::kQuantum == 0);
            check_cover(layout);
        }
    }
}

TEST_CASE("padding is smaller than one quantum a rank plus one alignment a parameter") {
    std::mt19937 random(11);
    for (int round = 0; round < 40; ++round) {
        const auto parameters = random_parameters(random);
        std::int64_t elements = 0;
        for (const auto& parameter : parameters)
            elements += parameter.element_count();
        for (int world_size = 1; world_size <= 9; ++world_size) {
            const ShardLayout layout(parameters, world_size);
            const auto bound =
                128 * world_size + world_size + 128 * static_cast<std::int64_t>(parameters.size());
            CHECK(layout.arena_elements() - elements < bound);
        }
    }
}

TEST_CASE("a known layout: two parameters, three ranks, the cut inside the first") {
    const std::vector<ParameterSpec> parameters = {{"w", {10, 30}}, {"b", {5}}};
    const ShardLayout layout(parameters, 3, 64, 128);
    CHECK(layout.placement("b").offset == 320);
    CHECK(layout.shard_elements() == 128);
    const auto last = layout.intervals(2);
    REQUIRE(last.size() == 2);
    CHECK(last[0].parameter_offset == 256);
    CHECK(last[0].count == 44);
    CHECK(last[1].shard_offset == 64);
    CHECK(last[1].count == 5);
}

TEST_CASE("a rank may hold nothing") {
    const std::vector<ParameterSpec> parameters = {{"scale", {}}};
    const ShardLayout layout(parameters, 4);
    CHECK(layout.intervals(0).size() == 1);
    CHECK(layout.intervals(3).empty());
}

TEST_CASE("names are unique, and a wrong one is answered with the nearest") {
    CHECK(thrown_by([] {
              ShardLayout(std::vector<ParameterSpec>{{"w", {2}}, {"w", {3}}}, 1);
          }) == "two parameters have the name w | ");
    const std::vector<ParameterSpec> parameters = {{"attn.w", {2}}, {"attn.b", {2}}};
    const ShardLayout layout(parameters, 2);
    CHECK(thrown_by([&] { layout.placement("atn.w"); }) ==
          "no parameter is named atn.w; did you mean attn.w? | the parameters are attn.w, attn.b");
    CHECK(thrown_by([&] { layout.placement("x"); }) ==
          "no parameter is named x | the parameters are attn.w, attn.b");
}

TEST_CASE("shapes and worlds that make no sense are refused") {
    CHECK(thrown_by([] {
              ShardLayout(std::vector<ParameterSpec>{{"w", {2, 0}}}, 1);
          }) == "parameter w has an extent of 0 | ");
    CHECK(thrown_by([] {
              ShardLayout(std::vector<ParameterSpec>{{"w", {-1}}}, 1);
          }) == "parameter w has an extent of -1 | ");
    CHECK(thrown_by([] {
              ShardLayout(std::vector<ParameterSpec>{{"", {2}}}, 1);
          }) == "a parameter has no name | ");
    CHECK(thrown_by([] {
              ShardLayout(std::vector<ParameterSpec>{{"w", {2}}}, 0);
          }) == "world size 0 is not positive | ");
    const std::int64_t huge = std::int64_t{1} << 40;
    CHECK(thrown_by([&] {
              ShardLayout(std::vector<ParameterSpec>{{"w", {huge, huge}}}, 1);
          }) == "parameter w has more elements than 63 bits can count | ");
    CHECK_FALSE(thrown_by([] {
                    ShardLayout(std::vector<ParameterSpec>{{"w", {INT64_MAX}}}, 3);
                }).empty());
    const ShardLayout layout(std::vector<ParameterSpec>{{"w", {2}}}, 2);
    CHECK(thrown_by([&] { layout.intervals(2); }) == "rank 2 is not in a world of 2 | ");
}

}  // namespace shard_layout_test
