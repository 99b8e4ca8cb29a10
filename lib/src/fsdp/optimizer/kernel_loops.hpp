// The loops of one set of kernels: included once by each file that has a set, inside a namespace of its own, after
//   AUTOLAUNCH_KERNEL   the attribute that gives a function the instructions
//   Floats              a register of floats; float where the compiler alone decides what is done side by side
//   root_of(), load_f16(), store_f16()   square roots, and halves to Floats and back, rounded correctly
// All arithmetic is the compiler's, without contraction, so each element gets the bits that plain C++ gives.

#define AUTOLAUNCH_INLINE AUTOLAUNCH_KERNEL __attribute__((always_inline)) inline

constexpr std::size_t kLanes = sizeof(Floats) / sizeof(float);

template <class T, class V>
struct LanesOf {
    typedef T type __attribute__((vector_size(sizeof(V) / sizeof(float) * sizeof(T))));
};
template <class T>
struct LanesOf<T, float> {
    using type = T;
};
/// As many T as V has floats.
template <class T, class V>
using Lanes = typename LanesOf<T, V>::type;

template <class V, class From>
AUTOLAUNCH_INLINE V load(const From* from) {
    V values;
    __builtin_memcpy(&values, from, sizeof values);
    return values;
}

template <class V, class To>
AUTOLAUNCH_INLINE void store(To* to, V values) {
    __builtin_memcpy(static_cast<void*>(to), &values, sizeof values);
}

template <class To, class V>
AUTOLAUNCH_INLINE To converted(V values) {
    if constexpr (std::is_arithmetic_v<V>) {
        return static_cast<To>(values);
    } else {
        return __builtin_convertvector(values, To);
    }
}

template <class To, class V>
AUTOLAUNCH_INLINE To same_bits(V values) {
    static_assert(sizeof(To) == sizeof(V));
    To bits;
    __builtin_memcpy(&bits, &values, sizeof bits);
    return bits;
}

template <class V>
AUTOLAUNCH_INLINE V square_root(V values) {
    if constexpr (std::is_same_v<V, float>) {
        return std::sqrt(values);
    } else {
        return root_of(values);
    }
}

#include "fsdp/optimizer/element_steps.hpp"

/// How many state arrays a step has.
template <class Step>
constexpr int kStates = 1;
template <>
constexpr int kStates<AdamWStep> = 2;
template <>
constexpr int kStates<SGDStep> = 0;

template <class V, class Step>
AUTOLAUNCH_INLINE void step_at(const Step& step, const ElementRange& r, std::size_t i) {
    V p = load<V>(r.master + i), first = V{}, second = V{};
    if constexpr (kStates < Step >> 0) first = load<V>(r.first_state + i);
    if constexpr (kStates < Step >> 1) second = load<V>(r.second_state + i);
    step.apply(load<V>(r.gradient + i), p, first, second);
    store(r.master + i, p);
    if constexpr (kStates < Step >> 0) store(r.first_state + i, first);
    if constexpr (kStates < Step >> 1) store(r.second_state + i, second);
}

template <class Step, class Factors>
AUTOLAUNCH_KERNEL void run(const Factors& factors, const ElementRange& range) {
    const Step step{factors};
    const ElementRange r = range;
    std::size_t i = 0;
    if constexpr (kLanes > 1)
        for (; i + kLanes <= r.count; i += kLanes) step_at<Floats>(step, r, i);
    for (; i < r.count; ++i) step_at<float>(step, r, i);
}

template <class V>
AUTOLAUNCH_INLINE V widened(const bfloat16* from) {
    const auto halves = load<Lanes<std::uint16_t, V>>(from);
    return same_bits<V>(converted<Lanes<std::uint32_t, V>>(halves) << 16);
}

template <class V>
AUTOLAUNCH_INLINE V widened(const float16* from) {
    if constexpr (std::is_same_v<V, float>) {
        return static_cast<float>(*from);
    } else {
        return load_f16(from);
    }
}

template <class V>
AUTOLAUNCH_INLINE void narrow(V values, bfloat16* to) {
    using Words = Lanes<std::uint32_t, V>;
    store(to, converted<Lanes<std::uint16_t, V>>(nearest_bf16(same_bits<Words>(values), values != values)));
}

template <class V>
AUTOLAUNCH_INLINE void narrow(V values, float16* to) {
    if constexpr (std::is_same_v<V, float>) {
        *to = float16(values);
    } else {
        store(to, store_f16(values));
    }
}

template <class T>
AUTOLAUNCH_KERNEL void widen_all(const T* from, float* to, std::size_t count) {
    std::size_t i = 0;
    if constexpr (kLanes > 1)
        for (; i + kLanes <= count; i += kLanes) store(to + i, widened<Floats>(from + i));
    for (; i < count; ++i) to[i] = widened<float>(from + i);
}

template <class T>
AUTOLAUNCH_KERNEL void narrow_all(const float* from, T* to, std::size_t count) {
    std::size_t i = 0;
    if constexpr (kLanes > 1)
        for (; i + kLanes <= count; i += kLanes) narrow(load<Floats>(from + i), to + i);
    for (; i < count; ++i) narrow(from[i], to + i);
}

template <class V>
AUTOLAUNCH_INLINE void round_randomly(RoundingKey key, Lanes<std::uint32_t, V> indices, V values, bfloat16* to) {
    using Words = Lanes<std::uint32_t, V>;
    store(to, converted<Lanes<std::uint16_t, V>>(randomly_rounded_bf16<Words>(key, indices, same_bits<Words>(values))));
}

template <class V>
AUTOLAUNCH_INLINE V indices_from(std::uint32_t first) {
    std::uint32_t indices[sizeof(V) / sizeof(std::uint32_t)];
    for (std::uint32_t& index : indices) index = first++;
    return load<V>(indices);
}

/// All indices have the same upper half.
AUTOLAUNCH_KERNEL void round_part(RoundingKey key, std::uint64_t first, const float* from, bfloat16* to,
                                  std::size_t count) {
    key = key_from(key, static_cast<std::uint32_t>(first >> 32));
    const auto low = static_cast<std::uint32_t>(first);
    std::size_t i = 0;
    if constexpr (kLanes > 1) {
        auto indices = indices_from<Lanes<std::uint32_t, Floats>>(low);
        for (; i + kLanes <= count; i += kLanes, indices += static_cast<std::uint32_t>(kLanes))
            round_randomly<Floats>(key, indices, load<Floats>(from + i), to + i);
    }
    for (; i < count; ++i) round_randomly<float>(key, low + static_cast<std::uint32_t>(i), from[i], to + i);
}

void round_all(RoundingKey key, std::uint64_t first, const float* from, bfloat16* to, std::size_t count) {
    const std::uint64_t to_next_half = (std::uint64_t{1} << 32) - (first & 0xffffffffu);
    const std::size_t head = count < to_next_half ? count : static_cast<std::size_t>(to_next_half);
    round_part(key, first, from, to, head);
    if (head < count) round_part(key, first + head, from + head, to + head, count - head);
}

constexpr std::size_t kDoubles = kLanes > 1 ? kLanes / 2 : 1;  // in a register

/// The upper half of the lanes is added to the lower one, until one is left.
AUTOLAUNCH_INLINE double folded(double* lanes) {
    for (std::size_t width = kSumLanes / 2; width > 0; width /= 2)
        for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/// The same of a register.
template <std::size_t lanes, class V>
AUTOLAUNCH_INLINE double folded(V values) {
    if constexpr (lanes == 1) {
        return values[0];
    } else {
        typedef double Half __attribute__((vector_size(lanes / 2 * sizeof(double))));
        Half halves[2];
        __builtin_memcpy(halves, &values, sizeof halves);
        return folded<lanes / 2>(halves[0] + halves[1]);
    }
}

AUTOLAUNCH_INLINE double short_block_sum(const float* from, std::size_t count) {
    double lanes[kSumLanes] = {};
    for (std::size_t i = 0; i < count; ++i) {
        const double value = from[i];
        lanes[i % kSumLanes] += value * value;
    }
    return folded(lanes);
}

AUTOLAUNCH_INLINE double block_sum(const float* from) {
    typedef float NarrowPart __attribute__((vector_size(kDoubles * sizeof(float))));
    typedef double Part __attribute__((vector_size(kDoubles * sizeof(double))));
    constexpr std::size_t kParts = kSumLanes / kDoubles;
    Part parts[kParts] = {};
    for (std::size_t row = 0; row < kSumBlock; row += kSumLanes) {
        for (std::size_t part = 0; part < kParts; ++part) {
            const Part values = __builtin_convertvector(load<NarrowPart>(from + row + part * kDoubles), Part);
            parts[part] += values * values;
        }
    }
    for (std::size_t width = kParts / 2; width > 0; width /= 2)
        for (std::size_t part = 0; part < width; ++part) parts[part] += parts[part + width];
    return folded<kDoubles>(parts[0]);
}

AUTOLAUNCH_KERNEL void sum_blocks(const float* from, double* sums, std::size_t count) {
    const std::size_t whole = count / kSumBlock;
    for (std::size_t block = 0; block < whole; ++block) {
        if constexpr (kLanes > 1) {
            sums[block] = block_sum(from + block * kSumBlock);
        } else {
            sums[block] = short_block_sum(from + block * kSumBlock, kSumBlock);
        }
    }
    if (whole * kSumBlock < count) sums[whole] = short_block_sum(from + whole * kSumBlock, count - whole * kSumBlock);
}

#define AUTOLAUNCH_OPTIMIZER_KERNELS(name)                                                              \
    {                                                                                                   \
        name, run<AdamWStep, AdamWFactors>, run<SGDStep, SGDFactors>, run<SGDMomentumStep, SGDFactors>, \
            run<LionStep, LionFactors>, widen_all<bfloat16>, widen_all<float16>, narrow_all<bfloat16>,  \
            narrow_all<float16>, round_all, sum_blocks                                                  \
    }
