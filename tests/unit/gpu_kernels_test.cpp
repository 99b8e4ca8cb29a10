// The kernels of GPUs without a GPU: compiled for the CPU, they give the bits of the CPU's plain
// kernels.
#include "../integration/host_kernels.hpp"
#include "base/hash.hpp"
#include "comm/reduce.hpp"
#include "fsdp/cast.hpp"
#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/exact_sum.hpp"
#include "fsdp/optimizer/shard_updates.hpp"
#include "optimizer_shards.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gpu_kernels_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using autolaunch::fsdp::testing::ShardTypes;
using autolaunch::fsdp::testing::TestShard;
namespace host = autolaunch::fsdp::host_kernels;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint64_t kSeed = 7;
constexpr unsigned kThreads = 64;

// Lengths that fill no group, no block of squares and no chunk; one parameter begins in the middle
// of the shard.
std::vector<ParameterSpec> parameters() {
    return {{"one", {1}}, {"odd", {3, 333}}, {"chunks", {kChunkElements * 2 + 77}}, {"five", {5}}};
}

// Many exponents, zeros, negative zeros and subnormal numbers.
float value_at(const std::string& name, std::int64_t i, unsigned salt) {
    std::minstd_rand random(static_cast<unsigned>(i * 31 + std::ssize(name) * 7) + salt);
    random();
    const auto word = random();
    if (word % 97 == 0)
        return word % 2 == 0 ? 0.0f : -0.0f;
    if (word % 89 == 0)
        return std::numeric_limits<float>::denorm_min() * static_cast<float>(word % 1000);
    return std::ldexp(static_cast<float>(word % 20001) - 10000,
                      static_cast<int>(random() % 30) - 28);
}

/// A shard with states, updated by a kernel.
class KernelUpdate {
public:
    KernelUpdate(TestShard& shard, Algorithm& algorithm, int blocks)
        : shard_(shard), algorithm_(algorithm), blocks_(static_cast<unsigned>(blocks)) {
        for (std::size_t k = 0; k < algorithm.states().size(); ++k)
            states_.emplace_back(shard.shard.elements);
        for (const auto& run : shard.shard.runs) {
            name_hashes_.push_back(hash64(run.full_name.data(), run.full_name.size()));
            for (std::int64_t done = 0; done < run.count; done += kChunkElements) {
                UpdateChunk chunk;
                chunk.shard_offset = static_cast<std::uint64_t>(run.shard_offset + done);
                chunk.parameter_offset = static_cast<std::uint64_t>(run.parameter_offset + done);
                chunk.run = static_cast<std::uint32_t>(name_hashes_.size() - 1);
                chunk.count = static_cast<std::uint32_t>(
                    std::min<std::int64_t>(kChunkElements, run.count - done));
                chunks_.push_back(chunk);
            }
        }
    }

    UpdateShard entry(bool first) {
        UpdateShard entry;
        entry.gradient = shard_.shard.gradient;
        entry.master = shard_.shard.master;
        entry.param = shard_.shard.param;
        if (!states_.empty())
            entry.first_state = states_[0].data();
        if (states_.size() > 1)
            entry.second_state = states_[1].data();
        entry.has_gradient = 1;
        entry.is_first = first ? 1 : 0;
        return entry;
    }

    template <class Kernel, class Gradient, class Master, class Param>
    void run(std::int64_t step, float gradient_scale, bool first) {
        std::vector<RoundingKey> keys;
        for (const auto hash : name_hashes_)
            keys.push_back(rounding_key(kSeed, step, hash));
        const StepScale scale{0, gradient_scale, 1};
        const UpdateShard shard = entry(first);
        const UpdateArguments arguments{chunks_.data(), chunks_.size(),
                                        &shard,         algorithm_.kernel_factors().bytes.data(),
                                        keys.data(),    &scale};
        host::run_threads(blocks_, kThreads, [&](host::GridPlace place) {
            host::update_chunks<Kernel, Gradient, Master, Param>(place, arguments);
        });
    }

    template <class Gradient>
    std::vector<std::int64_t> squares() {
        std::vector<std::int64_t> words(ExactSum::kWords);
        const UpdateShard shard = entry(false);
        host::sum_squares<Gradient>({chunks_.data(), chunks_.size(), &shard, words.data()});
        return words;
    }

    const std::vector<std::vector<float>>& states() const { return states_; }
    std::vector<UpdateChunk>& chunks() { return chunks_; }

private:
    TestShard& shard_;
    Algorithm& algorithm_;
    unsigned blocks_;
    std::vector<std::vector<float>> states_;
    std::vector<std::uint64_t> name_hashes_;
    std::vector<UpdateChunk> chunks_;
};

std::vector<float> all_of(const TestShard& shard, bool param) {
    std::vector<float> values;
    for (const auto& run : shard.shard.runs)
        param ? shard.append_param(run.full_name, values)
              : shard.append_master(run.full_name, values);
    return values;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
    std::vector<std::uint32_t> words;
    for (const float value : values)
        words.push_back(std::bit_cast<std::uint32_t>(value));
    return words;
}

using MakeAlgorithm = std::function<std::unique_ptr<Algorithm>()>;

const ParameterSettings kSettings{
    .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .momentum = 0.9};

/// Three steps on both; every bit of masters, parameters and states must be the same.
template <class Kernel, class Gradient, class Master, class Param>
void compare(const MakeAlgorithm& make, const ShardTypes& types, int blocks) {
    TestShard expected(parameters(), 1, 2, types), got(parameters(), 1, 2, types);
    for (TestShard* shard : {&expected, &got})
        shard->fill_master(
            [](const std::string& name, std::int64_t i) { return value_at(name, i, 1); });
    ShardUpdates updates({&expected.shard}, make(),
                         {kSettings, [](const ParameterSpec&) { return true; }, {}, 1, kSeed});
    updates.use_kernels(plain_optimizer_kernels());
    const auto algorithm = make();
    KernelUpdate kernel(got, *algorithm, blocks);
    for (unsigned step = 1; step < 4; ++step) {
        for (TestShard* shard : {&expected, &got})
            shard->fill_gradient([&](const std::string& name, std::int64_t i) {
                return value_at(name, i, 10 * step);
            });
        const StepNumbers numbers{step, 0.01, 0.37};
        updates.update(numbers);
        algorithm->begin(numbers, {kSettings});
        kernel.run<Kernel, Gradient, Master, Param>(step, 0.37f, step == 1);
    }
    CHECK(bits(all_of(got, false)) == bits(all_of(expected, false)));
    if (types.has_param)
        CHECK(bits(all_of(got, true)) == bits(all_of(expected, true)));
    State state;
    updates.append_state(state);
    std::vector<float> expected_state, got_state;
    for (const StateTensor& tensor : state)
        for (const auto& piece : tensor.pieces)
            if (tensor.type == DataType::f32)
                expected_state.insert(expected_state.end(),
                                      reinterpret_cast<const float*>(piece.data),
                                      reinterpret_cast<const float*>(piece.data) + piece.count);
    for (const auto& values : kernel.states())
        for (const auto& run : got.shard.runs)
            got_state.insert(got_state.end(), values.begin() + run.shard_offset,
                             values.begin() + run.shard_offset + run.count);
    CHECK(bits(got_state) == bits(expected_state));
}

template <class Kernel>
void compare_types(const MakeAlgorithm& make) {
    const auto type_of = [](const std::string& name) {
        return name == "f32" ? f32 : name == "bf16" ? bf16 : f16;
    };
    int blocks = 1;
#define COMPARE(algorithm, name, G, g, M, m, P, p)                                       \
    {                                                                                    \
        CAPTURE(#g " " #m " " #p);                                                       \
        constexpr bool has_param =                                                       \
            host::ChunkUpdate<Kernel, host::G, host::M, host::P>::kHasParam;             \
        compare<Kernel, host::G, host::M, host::P>(                                      \
            make, {type_of(#g), type_of(#m), has_param, type_of(#p)}, blocks++ % 4 + 1); \
    }
    AUTOLAUNCH_UPDATE_TYPES(COMPARE, , )
#undef COMPARE
}

}  // namespace

TEST_CASE("kernels update with the bits of the CPU's plain ones, in every type") {
    compare_types<host::AdamWKernel>([] { return adamw_algorithm(); });
    compare_types<host::SGDKernel>([] { return sgd_algorithm({}); });
    compare_types<host::SGDMomentumKernel>(
        [] { return sgd_algorithm({.momentum = 0.9, .dampening = 0.25}); });
    compare_types<host::SGDMomentumKernel>(
        [] { return sgd_algorithm({.momentum = 0.9, .nesterov = true}); });
    compare_types<host::LionKernel>([] { return lion_algorithm(); });
}

TEST_CASE("rounding at random goes by the index, also beyond 2^32") {
    TestShard shard({{"w", {20}}}, 0, 1, {.master = bf16});
    shard.fill_master(
        [](const std::string&, std::int64_t i) { return 1.0f + static_cast<float>(i) / 128; });
    shard.fill_gradient([](const std::string&, std::int64_t) { return 1.0f; });
    const auto algorithm = sgd_algorithm({});
    algorithm->begin({1, 0.001, 1}, {ParameterSettings{}});
    KernelUpdate kernel(shard, *algorithm, 1);
    const std::uint64_t first = (std::uint64_t{1} << 33) - 8;  // a group on either side
    kernel.chunks()[0].parameter_offset = first;
    std::vector<bfloat16> expected(20);
    const RoundingKey key = rounding_key(kSeed, 1, hash64("u.w", 3));
    for (std::size_t i = 0; i < 20; ++i) {
        const float gradient = 1;
        expected[i] = bfloat16(1.0f + static_cast<float>(i) / 128);
        plain_optimizer_kernels().sgd({.lr = 0.001f}, {.gradient = &gradient,
                                                       .master = &expected[i],
                                                       .count = 1,
                                                       .master_type = bf16,
                                                       .key = key,
                                                       .index = first + i});
    }
    kernel.run<host::SGDKernel, host::F32Memory, host::Bf16Memory, host::NoMemory>(1, 1.0f, true);
    const auto got = all_of(shard, false);
    for (std::size_t i = 0; i < 20; ++i)
        CHECK(got[i] == static_cast<float>(expected[i]));
}

TEST_CASE("the norm's kernels sum exactly what the CPU sums, and clip as it does") {
    for (const DataType type : {f32, bf16, f16}) {
        CAPTURE(name_of(type));
        TestShard shard(parameters(), 0, 2, {.gradient = type});
        shard.fill_gradient(
            [](const std::string& name, std::int64_t i) { return value_at(name, i, 3); });
        ShardUpdates updates({&shard.shard}, adamw_algorithm(), {kSettings, {}, {}, 1, 0});
        updates.use_kernels(plain_optimizer_kernels());
        const auto algorithm = adamw_algorithm();
        KernelUpdate kernel(shard, *algorithm, 1);
        auto words = type == f32    ? kernel.squares<host::F32Memory>()
                     : type == bf16 ? kernel.squares<host::Bf16Memory>()
                                    : kernel.squares<host::F16Memory>();
        ExactSum expected = updates.sum_of_squares();
        std::vector<double> sums(ExactSum::kWords);
        host::carry_words({words.data(), sums.data()});
        CHECK(std::equal(sums.begin(), sums.end(), expected.words().begin()));
        const double norm = std::sqrt(expected.value());
        for (const double max_norm : {-1.0, 0.5, 1e30}) {
            StepScale scale;
            host::set_scale({sums.data(), &scale, 0.25, max_norm, 1});
            CHECK(scale.sum_norm == norm);
            CHECK(scale.updates == 1);
            const double clip = max_norm < 0 ? 1.0 : std::min(1.0, max_norm / (norm * 0.25 + 1e-6));
            CHECK(scale.gradient_scale == static_cast<float>(0.25 * clip));
        }
    }
}

TEST_CASE(
    "a gradient that is not finite stops the step where it shall, and is not hidden where it shall "
    "not") {
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        CAPTURE(bad);
        TestShard shard(parameters(), 0, 1, {});
        shard.fill_gradient([&](const std::string& name, std::int64_t i) {
            return name == "u.five" && i == 4 ? bad : 1;
        });
        const auto algorithm = adamw_algorithm();
        KernelUpdate kernel(shard, *algorithm, 1);
        auto words = kernel.squares<host::F32Memory>();
        std::vector<double> sums(ExactSum::kWords);
        host::carry_words({words.data(), sums.data()});
        StepScale scale;
        host::set_scale({sums.data(), &scale, 1, 1, 1});
        CHECK(scale.updates == 0);
        CHECK_FALSE(std::isfinite(scale.sum_norm));
        host::set_scale({sums.data(), &scale, 1, 1, 0});
        CHECK(scale.updates == 1);
        CHECK(std::isnan(scale.sum_norm) == std::isnan(bad));
        CHECK((std::isnan(bad) ? std::isnan(scale.gradient_scale) : scale.gradient_scale == 0));
    }
}

TEST_CASE("a step that is stopped, and a shard without a gradient, are left alone") {
    TestShard shard(parameters(), 0, 1, {});
    shard.fill_master([](const std::string& name, std::int64_t i) { return value_at(name, i, 1); });
    shard.fill_gradient([](const std::string&, std::int64_t) { return 1.0f; });
    const auto before = bits(all_of(shard, false));
    const auto algorithm = sgd_algorithm({});
    algorithm->begin({1, 0.1, 1}, {ParameterSettings{}});
    KernelUpdate kernel(shard, *algorithm, 1);
    const auto run = [&](std::uint32_t updates, std::uint32_t has_gradient) {
        UpdateShard entry = kernel.entry(true);
        entry.has_gradient = has_gradient;
        const StepScale scale{0, 1, updates};
        const UpdateArguments arguments{kernel.chunks().data(),
                                        kernel.chunks().size(),
                                        &entry,
                                        algorithm->kernel_factors().bytes.data(),
                                        nullptr,
                                        &scale};
        host::run_threads(2, kThreads, [&](host::GridPlace place) {
            host::update_chunks<host::SGDKernel, host::F32Memory, host::F32Memory, host::NoMemory>(
                place, arguments);
        });
        return bits(all_of(shard, false));
    };
    CHECK(run(0, 1) == before);
    CHECK(run(1, 0) == before);
    CHECK(run(1, 1) != before);
}

TEST_CASE("casts and sums of arrays are the CPU's, and what is not finite is found") {
    constexpr std::size_t kMost = 8 * 200 + 5;
    alignas(16) static float wide[kMost];
    for (const std::size_t count : {std::size_t{3}, std::size_t{8 * 64}, kMost}) {
        for (std::size_t i = 0; i < count; ++i)
            wide[i] = value_at("x", static_cast<std::int64_t>(i), 5);
#define COMPARE(To, to, From, from)                                               \
    for (const bool adds : {false, true}) {                                       \
        CAPTURE(#to " from " #from);                                              \
        alignas(16) static float input[kMost], got[kMost], expected[kMost];       \
        cast(input, from, wide, f32, count);                                      \
        cast(got, to, wide, f32, count);                                          \
        cast(expected, to, wide, f32, count);                                     \
        adds ? accumulate(expected, to, input, from, count)                       \
             : cast(expected, to, input, from, count);                            \
        const CastArguments arguments{got, input, count};                         \
        host::run_threads(3, kThreads, [&](host::GridPlace place) {               \
            adds ? host::cast_all<host::To, host::From, true>(place, arguments)   \
                 : host::cast_all<host::To, host::From, false>(place, arguments); \
        });                                                                       \
        CHECK(std::memcmp(got, expected, count* size_of(to)) == 0);               \
    }
        AUTOLAUNCH_TYPE_PAIRS(COMPARE)
#undef COMPARE
        const auto find = [&] {
            std::uint64_t first = kNoIndex;
            const FindArguments arguments{wide, count, &first};
            host::run_threads(2, kThreads, [&](host::GridPlace place) {
                host::find_nonfinite<host::F32Memory>(place, arguments);
            });
            return first;
        };
        CHECK(find() == kNoIndex);
        wide[count - 1] = std::nanf("");
        CHECK(find() == count - 1);
        wide[count / 3] = -kInfinity;
        CHECK(find() == count / 3);
    }
}

TEST_CASE("parts of ranks are added in the order of the CPU's communicators") {
    for (const std::size_t ranks :
         {1u, 2u, 3u, 4u, 7u, 8u, 9u, 12u, 16u, 21u, 28u, 40u, 64u, 127u}) {
        CAPTURE(ranks);
        constexpr std::size_t kCount = 8 * kThreads * 2 + 8 * 5 + 3, kStride = kCount + 1;
        static_assert(kStride % 4 == 0);
        std::vector<std::vector<float>> parts(ranks, std::vector<float>(kCount));
        for (std::size_t rank = 0; rank < ranks; ++rank)
            for (std::size_t i = 0; i < kCount; ++i)
                parts[rank][i] =
                    value_at("w", static_cast<std::int64_t>(i), static_cast<unsigned>(100 + rank));
        std::vector<const void*> inputs(parts.size());
        std::transform(parts.begin(), parts.end(), inputs.begin(),
                       [](const auto& part) { return part.data(); });
        std::vector<float> expected(kCount);
        void* output = expected.data();
        reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, kCount, f32, ReduceOp::sum);
        for (const std::size_t own : {std::size_t{0}, ranks / 2, ranks - 1}) {
            alignas(16) static float memory[127 * kStride];
            alignas(16) static float sum[kStride];
            std::copy(parts[own].begin(), parts[own].end(), sum);
            sum[kCount] = -1;
            for (std::size_t rank = 0, at = 0; rank < ranks; ++rank)
                if (rank != own)
                    std::copy(parts[rank].begin(), parts[rank].end(), memory + kStride * at++);
            const SumArguments arguments{sum,
                                         memory,
                                         kStride,
                                         kCount,
                                         static_cast<std::uint32_t>(ranks),
                                         static_cast<std::uint32_t>(own)};
            host::run_threads(2, kThreads,
                              [&](host::GridPlace place) { host::add_parts(place, arguments); });
            CHECK(bits({sum, sum + kCount}) == bits(expected));
            CHECK(sum[kCount] == -1);
        }
    }
}

}  // namespace gpu_kernels_test
