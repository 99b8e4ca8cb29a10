// What ranks say about each other's calls, with the exchange between them played by the test.
#include "comm/call_comparison.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace call_comparison_test {

using namespace autolaunch;

namespace {

CollectiveCall all_reduce(std::size_t count, DataType type = f32, ReduceOp op = ReduceOp::sum) {
    return {.kind = CollectiveKind::all_reduce, .count = count, .type = type, .op = op};
}

CollectiveCall gather(std::vector<std::size_t> counts, int root) {
    return {.kind = CollectiveKind::gather,
            .blocks = BlockCounts::ragged(counts),
            .type = i8,
            .root = root};
}

std::string difference(const std::vector<CollectiveCall>& calls) {
    std::vector<CallDescriptor> all;
    for (const CollectiveCall& call : calls)
        all.push_back(CallDescriptor::of(call, static_cast<int>(calls.size())));
    return difference_between(all);
}

}  // namespace

TEST_CASE("equal calls differ in nothing, whatever their buffers and factors") {
    float data = 0;
    CollectiveCall here = all_reduce(7, f32, ReduceOp::pre_multiplied_sum(0.5));
    CollectiveCall there = all_reduce(7, f32, ReduceOp::pre_multiplied_sum(2));
    here.send = &data;
    CHECK(difference({here, there}).empty());
    CHECK(difference({gather({1, 2}, 1), gather({1, 2}, 1)}).empty());
    CHECK(difference({}).empty());
}

TEST_CASE("the ranks and both calls are named") {
    CHECK(difference({all_reduce(7), all_reduce(8), all_reduce(7)}) ==
          "ranks 0,2 call all_reduce (sum) of 7 elements of f32, rank 1 all_reduce (sum) of 8 "
          "elements of f32");
    CHECK(difference({all_reduce(7), all_reduce(7, f32, ReduceOp::max)}) ==
          "rank 0 calls all_reduce (sum) of 7 elements of f32, rank 1 all_reduce (max) of 7 "
          "elements of f32");
    CHECK(difference({all_reduce(7), all_reduce(7, i32)})
              .find("rank 1 all_reduce (sum) of 7 elements of i32") != std::string::npos);
    CHECK(difference({gather({1, 2}, 0), gather({1, 2}, 1)}).find("to rank 1") !=
          std::string::npos);
    CHECK(difference({gather({1, 2}, 0), gather({2, 1}, 0)}).find("(2 1)") != std::string::npos);
    CHECK(difference({all_reduce(1), all_reduce(2), all_reduce(3)}).find("and 1 more differ") !=
          std::string::npos);
}

TEST_CASE("a rank that is one call behind is told so") {
    std::array<CallDescriptor, 2> both = {CallDescriptor::of("barrier"),
                                          CallDescriptor::of("barrier")};
    both[1].sequence = 3;
    CHECK(difference_between(both) ==
          "rank 0 calls barrier, rank 1 barrier, which are call 0 and call 3");
}

TEST_CASE("a comparison throws what the exchange shows") {
    std::vector<std::byte> theirs;
    CallComparison comparison(2, [&](std::span<const std::byte> mine, std::span<std::byte> all) {
        std::memcpy(all.data(), mine.data(), mine.size());
        std::memcpy(all.data() + mine.size(), theirs.empty() ? mine.data() : theirs.data(),
                    mine.size());
    });
    CHECK_NOTHROW(comparison.compare(all_reduce(7)));
    CHECK_NOTHROW(comparison.compare(std::string_view("split")));
    auto other = CallDescriptor::of("barrier");
    other.sequence = 2;
    theirs.assign(reinterpret_cast<std::byte*>(&other), reinterpret_cast<std::byte*>(&other + 1));
    try {
        comparison.compare(all_reduce(7));
        FAIL("nothing was thrown");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::mismatch);
        CHECK(std::string(error.what()) ==
              "rank 0 calls all_reduce (sum) of 7 elements of f32, rank 1 barrier");
    }
}

TEST_CASE("what one rank sends in all_to_all must be what the other expects") {
    // Both ranks send 1 to rank 0 and 2 to rank 1, and expect as much from each: right only where 1
    // is 2.
    CallComparison comparison(2, [&](std::span<const std::byte> mine, std::span<std::byte> all) {
        std::memcpy(all.data(), mine.data(), mine.size());
        std::memcpy(all.data() + mine.size(), mine.data(), mine.size());
    });
    const std::array<std::size_t, 2> counts = {1, 2};
    CollectiveCall call{.kind = CollectiveKind::all_to_all,
                        .blocks = BlockCounts::ragged(counts),
                        .recv_blocks = BlockCounts::ragged(counts),
                        .type = f32};
    try {
        comparison.compare(call);
        FAIL("nothing was thrown");
    } catch (const Error& error) {
        CHECK(std::string(error.what()) ==
              "in all_to_all rank 0 sends 2 elements to rank 1, which expects 1");
    }
}

}  // namespace call_comparison_test
