// The element loops of the optimizers: every set gives the bits of plain C++, and plain C++ the
// right ones.
#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/exact_sum.hpp"
#include "fsdp/optimizer/kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace optimizer_kernels_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

constexpr std::size_t kLengths[] = {1, 7, 16, 33, 64, 1000, 4097};

std::vector<float> random_floats(std::size_t count, float scale, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(count);
    for (float& value : values)
        value = normal(random);
    return values;
}

/// Any bits but NaN's: subnormal numbers, infinities, both zeros.
std::vector<float> any_floats(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        if (std::isnan(value))
            value = random() % 2 ? 0.0f : -0.0f;
        if (random() % 5 == 0)
            value =
                std::ldexp(static_cast<float>(random() % 4096), -30);  // f16's subnormal numbers
    }
    return values;
}

struct Arrays {
    std::vector<float> gradient, master, first, second;

    explicit Arrays(std::size_t count)
        : gradient(random_floats(count, 1e-2f, 1)),
          master(random_floats(count, 1, 2)),
          first(random_floats(count, 1e-3f, 3)),
          second(random_floats(count, 1e-3f, 4)) {
        for (float& value : second)
            value *= value;
    }
    ElementRange range(std::size_t begin, std::size_t count) {
        return {.gradient = gradient.data() + begin,
                .master = master.data() + begin,
                .first_state = first.data() + begin,
                .second_state = second.data() + begin,
                .count = count};
    }
    bool operator==(const Arrays& other) const {
        const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
            return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
        };
        return same(master, other.master) && same(first, other.first) && same(second, other.second);
    }
};

using Update = std::function<void(const OptimizerKernels&, const ElementRange&)>;

void check_same_for_all_sets(const Update& update) {
    for (const std::size_t count : kLengths) {
        Arrays expected(count);
        update(plain_optimizer_kernels(), expected.range(0, count));
        CHECK_FALSE(expected == Arrays(count));
        for (const OptimizerKernels* set : optimizer_kernel_sets()) {
            CAPTURE(std::string(set->name));
            CAPTURE(count);
            Arrays got(count);
            const std::size_t cut = count / 3;
            update(*set, got.range(0, cut));
            update(*set, got.range(cut, count - cut));
            CHECK(got == expected);
        }
    }
}

/// What stochastic rounding makes of the values: SGD, with a rate of 1, takes their negatives from
/// masters of 0.
std::vector<bfloat16> rounded_at_random(const OptimizerKernels& set, RoundingKey key,
                                        std::uint64_t index, const std::vector<float>& values,
                                        std::size_t begin = 0, std::size_t end = SIZE_MAX) {
    end = std::min(end, values.size());
    std::vector<float> gradient;
    std::vector<bfloat16> master;
    for (std::size_t i = begin; i < end; ++i) {
        gradient.push_back(-values[i]);
        master.push_back(bfloat16(values[i] == 0 ? values[i] : 0.0f));  // -0 stays -0
    }
    set.sgd({.lr = 1}, {.gradient = gradient.data(),
                        .master = master.data(),
                        .count = end - begin,
                        .master_type = bf16,
                        .key = key,
                        .index = index + begin});
    return master;
}

std::vector<std::uint16_t> bits_of(const std::vector<bfloat16>& values) {
    std::vector<std::uint16_t> bits;
    for (const bfloat16 one : values)
        bits.push_back(one.bits);
    return bits;
}

/// Memory of one type, filled from floats.
class Numbers {
public:
    Numbers(DataType type, const std::vector<float>& values)
        : type_(type), bytes_(values.size() * size_of(type)) {
        if (type == f32)
            std::memcpy(bytes_.data(), values.data(), bytes_.size());
        if (type == bf16)
            plain_optimizer_kernels().narrow_bf16(values.data(), brains(), values.size());
        if (type == f16)
            plain_optimizer_kernels().narrow_f16(values.data(), halves(), values.size());
    }
    void* at(std::size_t element) { return bytes_.data() + element * size_of(type_); }
    std::vector<float> floats() {
        std::vector<float> values(bytes_.size() / size_of(type_));
        if (type_ == f32)
            std::memcpy(values.data(), bytes_.data(), bytes_.size());
        if (type_ == bf16)
            plain_optimizer_kernels().widen_bf16(brains(), values.data(), values.size());
        if (type_ == f16)
            plain_optimizer_kernels().widen_f16(halves(), values.data(), values.size());
        return values;
    }
    bool operator==(const Numbers&) const = default;

private:
    bfloat16* brains() { return reinterpret_cast<bfloat16*>(bytes_.data()); }
    float16* halves() { return reinterpret_cast<float16*>(bytes_.data()); }

    DataType type_;
    std::vector<std::byte> bytes_;
};

bfloat16 nearest_below(float value) {
    return std::bit_cast<bfloat16>(
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
}

}  // namespace

TEST_CASE("every instruction set updates with the same bits, for every length and cut") {
    check_same_for_all_sets([](const OptimizerKernels& kernels, const ElementRange& range) {
        kernels.adamw(adamw_factors(1e-3, 0.9, 0.999, 1e-8, 0.1, 3, 0.37), range);
    });
    const SGDFactors sgd{.gradient_scale = 0.37f,
                         .weight_decay = 0.1f,
                         .momentum = 0.9f,
                         .one_minus_dampening = 0.7f,
                         .direct = 1,
                         .through_buffer = 0.9f,
                         .lr = 0.03f};
    check_same_for_all_sets([&](const OptimizerKernels& kernels, const ElementRange& range) {
        kernels.sgd(sgd, range);
    });
    check_same_for_all_sets([&](const OptimizerKernels& kernels, const ElementRange& range) {
        kernels.sgd_momentum(sgd, range);
    });
    const LionFactors lion{.gradient_scale = 0.37f,
                           .decay = 0.999f,
                           .beta1 = 0.9f,
                           .one_minus_beta1 = 0.1f,
                           .beta2 = 0.99f,
                           .one_minus_beta2 = 0.01f,
                           .lr = 1e-3f};
    check_same_for_all_sets([&](const OptimizerKernels& kernels, const ElementRange& range) {
        kernels.lion(lion, range);
    });
}

TEST_CASE(
    "an update of other types is that of f32, widened before and rounded after, whatever the cut") {
    constexpr std::size_t kCount = 1000;
    const AdamWFactors factors = adamw_factors(1e-3, 0.9, 0.999, 1e-8, 0.1, 3, 0.37);
    const Arrays start(kCount);
    int checked = 0;
    for (const DataType gradient_type : {f32, bf16, f16}) {
        for (const DataType master_type : {f32, bf16, f16}) {
            for (const std::optional<DataType> param_type :
                 {std::optional<DataType>(), {f32}, {bf16}, {f16}}) {
                if (!can_update(gradient_type, master_type, param_type))
                    continue;
                ++checked;
                CAPTURE(name_of(gradient_type));
                CAPTURE(name_of(master_type));
                Arrays expected = start;
                expected.gradient = Numbers(gradient_type, start.gradient).floats();
                expected.master = Numbers(master_type, start.master).floats();
                plain_optimizer_kernels().adamw(factors, expected.range(0, kCount));
                const auto all = optimizer_kernel_sets();
                std::optional<Numbers> random;  // the plain set's masters in bf16
                for (auto set = all.rbegin(); set != all.rend(); ++set) {
                    CAPTURE(std::string((*set)->name));
                    Arrays got = start;
                    Numbers gradient(gradient_type, start.gradient),
                        master(master_type, start.master);
                    Numbers param(param_type.value_or(f32), start.first);
                    for (const auto& [begin, end] : {std::pair{0ul, 333ul}, {333ul, kCount}}) {
                        ElementRange range = got.range(begin, end - begin);
                        range.gradient_type = gradient_type;
                        range.gradient = gradient.at(begin);
                        range.master_type = master_type;
                        range.master = master.at(begin);
                        if (param_type)
                            range.param = param.at(begin);
                        range.param_type = param_type.value_or(f32);
                        range.key = {4, 5};
                        range.index = 77 + begin;
                        (*set)->adamw(factors, range);
                    }
                    CHECK(got.first == expected.first);
                    CHECK(got.second == expected.second);
                    if (master_type == f32)
                        CHECK(master == Numbers(f32, expected.master));
                    if (master_type == bf16)
                        CHECK(master == random.value_or(master));
                    if (master_type == bf16) {
                        const auto values = master.floats();
                        for (std::size_t i = 0; i < kCount; ++i)  // a neighbour
                            CHECK(std::abs(values[i] - expected.master[i]) <
                                  std::abs(expected.master[i]) / 128);
                        random = master;
                    }
                    if (param_type)
                        CHECK(param == Numbers(*param_type, master.floats()));
                }
            }
        }
    }
    CHECK(checked == 3 * (4 + 2));
}

TEST_CASE("every instruction set converts as the types do") {
    const auto values = any_floats(5001, 5);
    for (const OptimizerKernels* set : optimizer_kernel_sets()) {
        CAPTURE(std::string(set->name));
        std::vector<bfloat16> brain(values.size());
        std::vector<float16> half(values.size());
        std::vector<float> from_brain(values.size()), from_half(values.size());
        set->narrow_bf16(values.data(), brain.data(), values.size());
        set->narrow_f16(values.data(), half.data(), values.size());
        set->widen_bf16(brain.data(), from_brain.data(), values.size());
        set->widen_f16(half.data(), from_half.data(), values.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            wrong += brain[i].bits != bfloat16(values[i]).bits ||
                     half[i].bits != float16(values[i]).bits;
            wrong += from_brain[i] != static_cast<float>(brain[i]) ||
                     from_half[i] != static_cast<float>(half[i]);
        }
        CHECK(wrong == 0);
        const float nan = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> nans(40, nan);
        set->narrow_bf16(nans.data(), brain.data(), nans.size());
        set->narrow_f16(nans.data(), half.data(), nans.size());
        CHECK((std::isnan(float(brain[0])) && std::isnan(float(brain[39]))));
        CHECK((std::isnan(float(half[0])) && std::isnan(float(half[39]))));
    }
}

TEST_CASE("stochastic rounding has the value as its mean, and goes to a neighbour only") {
    constexpr std::size_t kCount = 1 << 18;
    const float below = 1.0f, step = 1.0f / 128;  // bf16 has 7 bits after the point
    for (const float fraction : {0.0f, 0.01f, 0.25f, 0.5f, 0.9f}) {
        const float value = below + fraction * step;
        const std::vector<float> values(kCount, value);
        const auto rounded = rounded_at_random(optimizer_kernels(), {17, 4711}, 0, values);
        double sum = 0;
        std::size_t strangers = 0;
        for (const bfloat16 one : rounded) {
            const auto result = static_cast<float>(one);
            strangers += result != below && result != below + step;
            sum += (result - below) / step;
        }
        CHECK(strangers == 0);
        // Four standard deviations of a mean of kCount draws, and the 16 bits that the fraction is
        // compared in.
        const double tolerance = 4 * std::sqrt(fraction * (1 - fraction) / kCount) + 1.0 / 65536;
        CHECK(std::abs(sum / kCount - fraction) <= tolerance);
    }
}

TEST_CASE("stochastic rounding is the same for every set and cut, and other for other keys") {
    const auto values = random_floats(5000, 1, 8);
    const auto rounded = [&](const OptimizerKernels& set, RoundingKey key, std::uint64_t first,
                             std::size_t cut) {
        auto result = bits_of(rounded_at_random(set, key, first, values, 0, cut));
        const auto rest = bits_of(rounded_at_random(set, key, first, values, cut));
        result.insert(result.end(), rest.begin(), rest.end());
        return result;
    };
    // Far into a large parameter, where the number of the random word passes 2^32.
    const std::uint64_t far = (std::uint64_t{1} << 33) - 1234;
    for (const std::uint64_t first : {std::uint64_t{0}, far}) {
        const auto expected = rounded(plain_optimizer_kernels(), {1, 2}, first, 0);
        for (const OptimizerKernels* set : optimizer_kernel_sets()) {
            CAPTURE(std::string(set->name));
            for (const std::size_t cut : {0ul, 64ul, 1233ul, 4999ul})
                CHECK(rounded(*set, {1, 2}, first, cut) == expected);
        }
        CHECK(rounded(plain_optimizer_kernels(), {2, 2}, first, 0) != expected);
        CHECK(rounded(plain_optimizer_kernels(), {1, 3}, first, 0) != expected);
    }
    CHECK(rounded(plain_optimizer_kernels(), {1, 2}, 0, 0) !=
          rounded(plain_optimizer_kernels(), {1, 2}, far, 0));
}

TEST_CASE(
    "what stochastic rounding does to an element says nothing of its neighbour, the next step or "
    "another parameter") {
    constexpr std::size_t kCount = 1 << 18;
    const std::vector<float> halfway(kCount, 1 + 0.5f / 128);
    const auto goes_up = [&](RoundingKey key) {
        std::vector<int> up;
        for (const bfloat16 one : rounded_at_random(optimizer_kernels(), key, 0, halfway))
            up.push_back(static_cast<float>(one) > 1 ? 1 : -1);
        return up;
    };
    const auto same = [&](const std::vector<int>& a, const std::vector<int>& b,
                          std::size_t distance) {
        double sum = 0;
        for (std::size_t i = distance; i < kCount; ++i)
            sum += a[i] * b[i - distance];
        return std::abs(sum);
    };
    const double four_deviations = 4 * std::sqrt(kCount);
    const std::vector<int> up = goes_up({7, 9});
    for (const std::size_t distance : {1ul, 2ul, 8ul, 15ul, 16ul, 32ul, 1024ul})
        CHECK(same(up, up, distance) <= four_deviations);
    // Keys are hashes; those that differ in one bit are harder.
    for (const RoundingKey key :
         {RoundingKey{6, 9}, RoundingKey{7, 8}, RoundingKey{0x80000007u, 9}})
        CHECK(same(up, goes_up(key), 0) <= four_deviations);
}

TEST_CASE("stochastic rounding keeps what bf16 can hold, infinities and NaN") {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> values = {0.0f,
                                 -0.0f,
                                 1.0f,
                                 -2.5f,
                                 infinity,
                                 -infinity,
                                 std::numeric_limits<float>::quiet_NaN(),
                                 std::bit_cast<float>(0x7f800001u)};
    values.resize(64, 0.5f);
    for (const OptimizerKernels* set : optimizer_kernel_sets()) {
        for (std::uint32_t key = 0; key < 50; ++key) {
            const auto rounded = rounded_at_random(*set, {key, key}, 0, values);
            for (std::size_t i = 0; i < 6; ++i)
                CHECK(rounded[i].bits == nearest_below(values[i]).bits);
            CHECK((std::isnan(float(rounded[6])) && std::isnan(float(rounded[7]))));
        }
    }
}

TEST_CASE("block sums are the same for every set, also of a short last block") {
    const auto values = random_floats(64 * 9 + 37, 3, 9);
    std::vector<double> expected(10);
    plain_optimizer_kernels().block_sums(values.data(), expected.data(), values.size());
    double total = 0, reference = 0;
    for (const double sum : expected)
        total += sum;
    for (const float value : values)
        reference += static_cast<double>(value) * value;
    CHECK(total == doctest::Approx(reference).epsilon(1e-14));
    for (const OptimizerKernels* set : optimizer_kernel_sets()) {
        std::vector<double> got(10);
        set->block_sums(values.data(), got.data(), values.size());
        CHECK(got == expected);
    }
}

TEST_CASE("an exact sum does not depend on the order, and loses nothing") {
    std::mt19937_64 random(11);
    std::vector<double> values;
    for (int i = 0; i < 20000; ++i)
        values.push_back(std::ldexp(static_cast<double>(random() >> 11),
                                    static_cast<int>(random() % 500) - 330));
    const auto sum_of = [&](std::size_t ranks) {
        std::array<double, ExactSum::kWords> words{};
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            ExactSum part;
            for (std::size_t i = rank; i < values.size(); i += ranks)
                part.add(values[i]);
            part.carry();
            const auto mine = part.words();
            for (std::size_t i = 0; i < words.size(); ++i)
                words[i] += mine[i];
        }
        return ExactSum::from_words(words).value();
    };
    const double one = sum_of(1);
    for (const std::size_t ranks : {2ul, 3ul, 8ul})
        CHECK(sum_of(ranks) == one);

    ExactSum small_ones;  // f64 would lose each of them
    small_ones.add(0x1p100);
    for (int i = 0; i < 1024; ++i)
        small_ones.add(0x1p40);
    CHECK(small_ones.value() == 0x1p100 + 0x1p50);
    ExactSum ends;
    const double smallest = std::numeric_limits<float>::denorm_min(),
                 largest = std::numeric_limits<float>::max();
    ends.add(smallest * smallest);
    CHECK(ends.value() == smallest * smallest);
    for (int i = 0; i < 64; ++i)
        ends.add(64 * largest * largest);
    CHECK(ends.value() == 4096 * largest * largest);
    CHECK(ExactSum().value() == 0);
}

TEST_CASE("an exact sum says that an infinity or a NaN was in it") {
    const double infinity = std::numeric_limits<double>::infinity();
    ExactSum sum;
    sum.add(1);
    CHECK(sum.finite());
    sum.add(infinity);
    CHECK_FALSE(sum.finite());
    CHECK(ExactSum::from_words(sum.words()).value() == infinity);
    sum.add(std::numeric_limits<double>::quiet_NaN());
    CHECK(std::isnan(sum.value()));
}

}  // namespace optimizer_kernels_test
