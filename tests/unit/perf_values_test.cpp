// The inputs of the collective benches: whatever order they are reduced in, the result is the one
// that is expected, and a result that is wrong is seen.
#include "../../bench/perf_values.hpp"

#include "comm/reduce.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

namespace perf_values_test {

using namespace autolaunch;
using bench::Origin;
using bench::PerfValues;

namespace {

constexpr std::array kTypes = {f32, f64, bf16, f16, i8, u8, i32, u32, i64, u64};
const std::array kOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
                         ReduceOp::max, ReduceOp::avg,  ReduceOp::pre_multiplied_sum(1)};

using Bytes = std::vector<std::byte>;

Bytes input(const PerfValues& values, DataType type, int rank, std::size_t first,
            std::size_t count) {
    Bytes bytes(count * size_of(type));
    values.write(bytes.data(), {Origin::From::input, rank, first, count});
    return bytes;
}

Bytes reduce(const std::vector<Bytes>& inputs, const std::vector<double>& factors, DataType type,
             ReduceOp op) {
    Bytes result(inputs[0].size());
    std::vector<const void*> in;
    for (const auto& one : inputs)
        in.push_back(one.data());
    const std::array<void*, 1> out = {result.data()};
    const bool scaled = op.kind() == ReduceOp::Kind::pre_multiplied_sum;
    reduce_elements(
        {.inputs = in,
         .factors = scaled ? std::span<const double>(factors) : std::span<const double>(),
         .outputs = out},
        result.size() / size_of(type), type, op);
    return result;
}

}  // namespace

TEST_CASE("results are exact in every type and operation, in any order of the ranks") {
    constexpr std::size_t kFirst = 700;
    constexpr std::size_t kCount = 2500;  // over the period, twice
    for (const DataType type : kTypes)
        for (const ReduceOp op : kOps)
            for (const int ranks : {1, 2, 3, 8, 13, 100}) {
                const PerfValues values(type, op, true, ranks, 5);
                std::vector<Bytes> inputs;
                std::vector<double> factors;
                for (int rank = 0; rank < ranks; ++rank) {
                    inputs.push_back(input(values, type, rank, kFirst, kCount));
                    factors.push_back(PerfValues::op_of(op, rank).factor());
                }
                INFO(name_of(type), " ", name_of(op), " of ", ranks, " ranks");
                const Origin expected{Origin::From::reduction, 0, kFirst, kCount};
                CHECK(values.count_wrong(reduce(inputs, factors, type, op).data(), expected) == 0);
                std::reverse(inputs.begin(), inputs.end());
                std::reverse(factors.begin(), factors.end());
                CHECK(values.count_wrong(reduce(inputs, factors, type, op).data(), expected) == 0);
            }
}

TEST_CASE("partial results rounded to the type at every step are exact, too") {
    for (const DataType type : {bf16, f16})
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod}) {
            for (const int ranks : {8, 40, 300}) {
                const PerfValues values(type, op, true, ranks, 9);
                Bytes total = input(values, type, 0, 0, 1021);
                for (int rank = 1; rank < ranks; ++rank)
                    total = reduce({total, input(values, type, rank, 0, 1021)}, {}, type, op);
                INFO(name_of(type), " ", name_of(op), " of ", ranks, " ranks");
                CHECK(values.count_wrong(total.data(), {Origin::From::reduction, 0, 0, 1021}) == 0);
            }
        }
}

TEST_CASE(
    "what is wrong is counted: an element, a shift, a block of another rank, an older call's "
    "result") {
    for (const DataType type : kTypes)
        for (const ReduceOp op : kOps) {
            INFO(name_of(type), " ", name_of(op));
            const PerfValues values(type, op, true, 8, 1);
            const std::size_t width = size_of(type);
            Bytes right(3000 * width);
            const Origin expected{Origin::From::reduction, 0, 0, 3000};
            values.write(right.data(), expected);
            CHECK(values.count_wrong(right.data(), expected) == 0);
            for (const std::size_t at : {std::size_t(0), std::size_t(1021), std::size_t(2999)}) {
                Bytes bytes = right;
                bytes[at * width] ^= std::byte(1);
                CHECK(values.count_wrong(bytes.data(), expected) == 1);
            }
            for (const std::size_t shift : {1, 64, 1024})
                CHECK(values.count_wrong(right.data() + shift * width,
                                         {Origin::From::reduction, 0, 0, 1000}) > 100);
            const PerfValues older(type, op, true, 8, 0);
            CHECK(older.count_wrong(right.data(), expected) > 100);
            const PerfValues moved(type, op, false, 8, 1);
            values.write(right.data(), {Origin::From::input, 3, 0, 3000});
            CHECK(moved.count_wrong(right.data(), {Origin::From::input, 4, 0, 3000}) > 1000);
        }
}

}  // namespace perf_values_test
