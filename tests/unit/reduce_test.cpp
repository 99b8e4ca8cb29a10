// Reductions on the CPU: every set of kernels gives the bits of plain C++, and plain C++ gives the
// right ones.
#include "comm/reduce_kernels.hpp"
#include "sanitized.hpp"

#include <autolaunch/comm/types.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace reduce_test {

using namespace autolaunch;

namespace {

constexpr std::array<ReduceOp, 6> kOps = {ReduceOp::sum,  ReduceOp::avg,
                                          ReduceOp::min,  ReduceOp::max,
                                          ReduceOp::prod, ReduceOp::pre_multiplied_sum(1)};

bool is_nan(DataType type, const std::byte* element) {
    if (type == f16)
        return std::isnan(
            float(std::bit_cast<float16>(*reinterpret_cast<const std::uint16_t*>(element))));
    if (type == bf16)
        return std::isnan(
            float(std::bit_cast<bfloat16>(*reinterpret_cast<const std::uint16_t*>(element))));
    if (type == f32)
        return std::isnan(*reinterpret_cast<const float*>(element));
    if (type == f64)
        return std::isnan(*reinterpret_cast<const double*>(element));
    return false;
}

/// Any bits at all: subnormal numbers, infinities, NaN, both zeros.
std::vector<std::byte> any_bits(DataType type, std::size_t count, std::mt19937_64& random) {
    std::vector<std::byte> bytes(count * size_of(type) + 8);
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + i, &word, 8);
    }
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* element = bytes.data() + i * size_of(type);
        if (i % 11 == 3)
            std::memset(element, 0, size_of(type));
    }
    return bytes;
}

struct Case {
    std::size_t inputs, outputs, count, shift;
    bool stream, in_place;
};

/// What one set makes of random inputs, which the seed tells.
std::vector<std::vector<std::byte>> outputs_of(const ReduceKernelSet& set, DataType type,
                                               ReduceOp op, const Case& c) {
    std::mt19937_64 random(c.inputs * 1000 + c.count);
    std::vector<std::vector<std::byte>> inputs, outputs;
    std::vector<const void*> from;
    std::vector<void*> to;
    std::vector<double> factors;
    for (std::size_t k = 0; k < c.inputs; ++k) {
        inputs.push_back(any_bits(type, c.count + c.shift, random));
        factors.push_back(0.75 + static_cast<double>(k));
    }
    for (auto& input : inputs)
        from.push_back(input.data() + c.shift * size_of(type));
    for (std::size_t k = 0; k < c.outputs; ++k)
        outputs.emplace_back((c.count + c.shift + 2) * size_of(type) + 64);
    for (auto& output : outputs) {
        // Where streaming can begin depends on the address, so all sets must see the same.
        const auto skip = (64 - reinterpret_cast<std::uintptr_t>(output.data()) % 64) % 64;
        to.push_back(output.data() + skip + c.shift * size_of(type));
    }
    if (c.in_place)
        to[0] = inputs[c.inputs - 1].data() + c.shift * size_of(type);
    reduce_with(set,
                {.inputs = from,
                 .factors = op.kind() == ReduceOp::Kind::pre_multiplied_sum
                                ? std::span<const double>(factors)
                                : std::span<const double>(),
                 .outputs = to,
                 .ranks = c.inputs + 3,
                 .stream = c.stream},
                c.count, type, op);
    std::vector<std::vector<std::byte>> results;
    for (void* output : to) {
        const auto* begin = static_cast<const std::byte*>(output);
        results.emplace_back(begin, begin + c.count * size_of(type));
        // Which of two NaNs goes on, the processor decides.
        for (std::size_t i = 0; i < results.back().size(); i += size_of(type))
            if (is_nan(type, &results.back()[i]))
                std::memset(&results.back()[i], 0xff, size_of(type));
    }
    for (std::size_t k = c.in_place ? 1 : 0; k < c.outputs; ++k) {
        const auto* end = static_cast<const std::byte*>(to[k]) + c.count * size_of(type);
        results.back().insert(results.back().end(), end,
                              end + 2);  // nothing behind the last element
    }
    return results;
}

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    for (const std::size_t inputs : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 19u})
        for (const std::size_t count : {0u, 1u, 31u, 64u, 129u, 1500u})
            for (const std::size_t shift : {0u, 1u, 13u}) {
                cases.push_back({inputs, 1, count, shift, false, false});
                cases.push_back({inputs, 2, count, shift, true, false});
                cases.push_back({inputs, 3, count, shift, false, true});
            }
    cases.push_back({2, 40, 300, 0, true, false});
    std::vector<Case> strided;
    for (std::size_t i = 0; i < cases.size(); i += kStride)
        strided.push_back(cases[i]);
    return strided;
}

template <class T>
T one(std::vector<T> values, ReduceOp op, std::vector<double> factors = {}) {
    std::vector<const void*> inputs;
    for (const T& value : values)
        inputs.push_back(&value);
    T result{};
    void* output = &result;
    reduce_elements({.inputs = inputs, .factors = factors, .outputs = {&output, 1}}, 1,
                    data_type_of<T>, op);
    return result;
}

}  // namespace

TEST_CASE("every set of kernels that this CPU has gives the bits of plain C++") {
    const auto sets = reduce_kernel_sets();
    REQUIRE(sets.back() == &plain_reduce_kernels());
    if (sets.size() == 1)
        MESSAGE("skipped: this CPU has no other set than plain C++");
    const std::vector<Case> cases = all_cases();
    for (int type = 0; type < kDataTypes; ++type) {
        for (const ReduceOp op : kOps) {
            for (const Case& c : cases) {
                const auto wanted =
                    outputs_of(plain_reduce_kernels(), static_cast<DataType>(type), op, c);
                for (const ReduceKernelSet* set : sets.first(sets.size() - 1)) {
                    if (outputs_of(*set, static_cast<DataType>(type), op, c) == wanted)
                        continue;
                    FAIL_CHECK(set->name << " differs: " << name_of(static_cast<DataType>(type))
                                         << " " << name_of(op) << " of " << c.inputs << " inputs, "
                                         << c.outputs << " outputs, " << c.count
                                         << " elements, shift " << c.shift);
                }
            }
        }
    }
}

TEST_CASE("sums are pairwise, whatever the number of inputs") {
    // 1 is lost beside 2^24 alone, but two of them are not.
    const float big = 16'777'216.0f;
    CHECK(one<float>({big, 1, 1, 1}, ReduceOp::sum) == (big + 1) + 2);
    CHECK(one<float>({big, 1, 1, 1, 1, 1, 1, 1}, ReduceOp::sum) == ((big + 1) + 2) + 4);
    CHECK(one<float>({1, 1, big}, ReduceOp::sum) == 2 + big);
    CHECK(one<float>({big, 1, 1, 1, 1, 1, 1}, ReduceOp::sum) == ((big + 1) + 2) + 3);
}

TEST_CASE("averages divide in a type that holds the number of ranks") {
    std::vector<std::uint8_t> many(512, 1);
    CHECK(one(many, ReduceOp::avg) == 0);  // 512 wraps to 0
    CHECK(one<std::int8_t>(std::vector<std::int8_t>(200, -1), ReduceOp::avg) ==
          0);  // -200 wraps to 56, over 200
    CHECK(one<std::int32_t>({-7, 0}, ReduceOp::avg) == -3);
    CHECK(one<float>({1, 2}, ReduceOp::avg) == 1.5f);
}

TEST_CASE("halves are summed in f32 and rounded once; factors are each input's own") {
    CHECK(float(one<bfloat16>({bfloat16(1.0f), bfloat16(1 / 256.0f), bfloat16(1 / 256.0f)},
                              ReduceOp::sum)) == 1 + 1 / 128.0f);
    CHECK(float(one<float16>({float16(65504.0f), float16(65504.0f)}, ReduceOp::avg)) == 65504.0f);
    CHECK(one<double>({1, 1}, ReduceOp::pre_multiplied_sum(1), {0.5, 3}) == 3.5);
}

}  // namespace reduce_test
