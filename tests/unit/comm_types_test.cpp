#include "comm/backend.hpp"
#include "comm/reduce.hpp"
#include "comm/split_plan.hpp"
#include "comm/work_state.hpp"

#include <autolaunch/comm/types.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace comm_types_test {

using namespace autolaunch;

TEST_CASE("bf16 rounds to nearest, ties to even") {
    CHECK(bfloat16(1.0f).bits == 0x3f80);
    CHECK(bfloat16(-2.0f).bits == 0xc000);
    CHECK(bfloat16(1.0f + 1.0f / 256).bits == 0x3f80);  // half way, down to even
    CHECK(bfloat16(1.0f + 3.0f / 256).bits == 0x3f82);  // half way, up to even
    CHECK(bfloat16(1.0f + 1.0f / 256 + 1.0f / 65536).bits == 0x3f81);
    CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);  // rounds up to infinity
    CHECK(bfloat16(std::numeric_limits<float>::infinity()).bits == 0x7f80);
    CHECK(bfloat16(-0.0f).bits == 0x8000);
    CHECK(static_cast<float>(bfloat16(0.15625f)) == 0.15625f);
}

TEST_CASE("a bf16 NaN stays NaN, whatever bits it had") {
    CHECK(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(std::isnan(
        static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001u)))));  // only low bits set
    CHECK(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0xffffffffu)))));
}

TEST_CASE("every bf16 survives the way to float and back") {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        bfloat16 value;
        value.bits = static_cast<std::uint16_t>(bits);
        const float wide = static_cast<float>(value);
        if (std::isnan(wide))
            continue;
        REQUIRE(bfloat16(wide).bits == bits);
    }
}

TEST_CASE("sizes and names of types and operations") {
    CHECK(size_of(f32) == 4);
    CHECK(size_of(f64) == 8);
    CHECK(size_of(bf16) == 2);
    CHECK(size_of(i32) == 4);
    CHECK(size_of(i64) == 8);
    CHECK(size_of(u8) == 1);
    CHECK(size_of(f16) == 2);
    CHECK(size_of(i8) == 1);
    CHECK(size_of(u32) == 4);
    CHECK(size_of(u64) == 8);
    CHECK(size_of(static_cast<DataType>(200)) == 0);
    CHECK(name_of(bf16) == "bf16");
    CHECK(name_of(i64) == "i64");
    CHECK(name_of(static_cast<DataType>(200)) == "unknown type");
    CHECK(name_of(ReduceOp::prod) == "prod");
    CHECK(name_of(ReduceOp(static_cast<ReduceOp::Kind>(9))) == "unknown op");
    CHECK(data_type_of<bfloat16> == bf16);
}

TEST_CASE("f16 rounds to nearest, ties to even, and knows subnormal numbers") {
    CHECK(float16(1.0f).bits == 0x3c00);
    CHECK(float16(-2.0f).bits == 0xc000);
    CHECK(float16(1.0f + 1.0f / 2048).bits == 0x3c00);  // half way, down to even
    CHECK(float16(1.0f + 3.0f / 2048).bits == 0x3c02);  // half way, up to even
    CHECK(float16(65504.0f).bits == 0x7bff);
    CHECK(float16(65519.0f).bits == 0x7bff);
    CHECK(float16(65520.0f).bits == 0x7c00);  // half way to 65536, which there is not
    CHECK(float16(1e9f).bits == 0x7c00);
    CHECK(float16(0x1p-24f).bits == 0x0001);
    CHECK(float16(0x1p-25f).bits == 0x0000);  // half of the smallest, to even
    CHECK(float16(0x1.8p-25f).bits == 0x0001);
    CHECK(float16(0x1.ff8p-15f).bits == 0x03ff);
    CHECK(float16(0x1.fffp-15f).bits == 0x0400);  // up to the smallest normal number
    CHECK(std::isnan(static_cast<float>(float16(std::bit_cast<float>(0x7f800001u)))));
}

TEST_CASE("every f16 survives the way to float and back") {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        float16 value;
        value.bits = static_cast<std::uint16_t>(bits);
        const float wide = static_cast<float>(value);
        if (std::isnan(wide))
            continue;
        REQUIRE(float16(wide).bits == bits);
    }
}

TEST_CASE("reduce_elements goes pairwise and may write over an input") {
    // Over a block's length, and not a multiple of a vector's.
    std::vector<float> a(2501, 1e8f), b(2501, 1.0f), c(2501, -1e8f), d(2501, 1.0f), e(2501, 3.0f),
        other(2501);
    const std::array<const void*, 5> inputs = {a.data(), b.data(), c.data(), d.data(), e.data()};
    const std::array<void*, 2> outputs = {b.data(), other.data()};
    reduce_elements({.inputs = inputs, .outputs = outputs}, a.size(), f32, ReduceOp::sum);
    CHECK(b == std::vector<float>(
                   2501, 3.0f));  // (1e8 + 1) + (-1e8 + 1) is 0; from left to right it would be 4
    CHECK(other == b);
}

TEST_CASE("avg divides in the type that accumulates, and integers round towards zero") {
    std::array<bfloat16, 1> one = {bfloat16(1.0f)}, zero = {bfloat16(0.0f)}, third{};
    std::array<const void*, 3> inputs = {one.data(), zero.data(), zero.data()};
    void* output = third.data();
    reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, 1, bf16, ReduceOp::avg);
    CHECK(third[0].bits == bfloat16(1.0f / 3.0f).bits);
    std::array<std::int32_t, 1> low = {-5}, high = {2}, mean{};
    const std::array<const void*, 2> integers = {low.data(), high.data()};
    output = mean.data();
    reduce_elements({.inputs = integers, .outputs = {&output, 1}}, 1, i32, ReduceOp::avg);
    CHECK(mean[0] == -1);
}

TEST_CASE("each input of a pre-multiplied sum has its own factor") {
    std::array<float, 1> a = {3.0f}, b = {5.0f}, sum{};
    const std::array<const void*, 2> inputs = {a.data(), b.data()};
    const std::array<double, 2> factors = {2.0, 0.5};
    void* output = sum.data();
    reduce_elements({.inputs = inputs, .factors = factors, .outputs = {&output, 1}}, 1, f32,
                    ReduceOp::pre_multiplied_sum(2.0));
    CHECK(sum[0] == 8.5f);
}

TEST_CASE("reduce_elements of one input copies it, in every type") {
    std::vector<bfloat16> in(3, bfloat16(2.5f)), out(3);
    const void* input = in.data();
    void* output = out.data();
    reduce_elements({.inputs = {&input, 1}, .outputs = {&output, 1}}, 3, bf16, ReduceOp::prod);
    for (const bfloat16 value : out)
        CHECK(static_cast<float>(value) == 2.5f);
}

TEST_CASE("u8 and i64 reductions wrap, and compare as what they are") {
    std::array<std::uint8_t, 2> small = {200, 3}, more = {100, 250}, sum{};
    std::array<const void*, 2> inputs = {small.data(), more.data()};
    void* output = sum.data();
    reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, 2, u8, ReduceOp::sum);
    CHECK(sum == std::array<std::uint8_t, 2>{44, 253});
    std::array<std::int64_t, 1> low = {-5}, high = {4}, least{};
    inputs = {low.data(), high.data()};
    output = least.data();
    reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, 1, i64, ReduceOp::min);
    CHECK(least[0] == -5);
}

TEST_CASE("plan_split orders a color's ranks by key, then by rank") {
    const std::vector<ColorAndKey> wishes = {{0, 5}, {1, 0}, {0, 1}, {-1, 0}, {0, 1}};
    CHECK(plan_split(wishes, 0).parent_ranks == std::vector<int>{2, 4, 0});
    CHECK(plan_split(wishes, 0).rank == 2);
    CHECK(plan_split(wishes, 4).rank == 1);
    CHECK(plan_split(wishes, 1).parent_ranks == std::vector<int>{1});
    CHECK(plan_split(wishes, 3).rank == -1);
}

namespace {

struct FailedWork final : Work::State {
    bool is_completed() const override { return true; }
    void wait() override { throw Error(ErrorCode::closed, "rank 3 went away"); }
    bool wait_for(std::chrono::nanoseconds) override { return wait(), true; }
};

}  // namespace

TEST_CASE("a Work is complete without a state, and throws what its state throws") {
    Work done;
    CHECK(done.is_completed());
    CHECK_NOTHROW(done.wait());
    Work failed(std::make_shared<FailedWork>());
    CHECK(failed.is_completed());
    CHECK_THROWS_AS(failed.wait(), Error);
    CHECK_THROWS_AS(failed.wait(), Error);
}

TEST_CASE("a Communicator without a backend is refused") {
    CHECK_THROWS_AS(Communicator(nullptr), Error);
}

}  // namespace comm_types_test
