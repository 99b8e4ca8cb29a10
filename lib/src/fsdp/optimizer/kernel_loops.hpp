// The loops of one set of kernels: included once by each file that has a set, inside a namespace of
// its own, after
//   AUTOLAUNCH_KERNEL   the attribute that gives a function the instructions
//   Floats, Words       a register of floats, and as many std::uint32_t; float where the compiler
//   alone decides what is
//                       done side by side
//   root_of(), load_f16(), store_f16()   square roots, and halves to Floats and back, rounded
//   correctly load_bf16()                          halves to Floats store_upper_halves() of the
//   words of two registers, one after the other
// All arithmetic is the compiler's, without contraction, so each element gets the bits that plain
// C++ gives.

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

template <class V>
AUTOLAUNCH_INLINE V widened(const float* from) {
    return load<V>(from);
}

template <class V>
AUTOLAUNCH_INLINE V widened(const bfloat16* from) {
    if constexpr (std::is_same_v<V, float>) {
        return same_bits<float>(static_cast<std::uint32_t>(from->bits) << 16);
    } else {
        return load_bf16(from);
    }
}

template <class V>
AUTOLAUNCH_INLINE V widened(const float16* from) {
    if constexpr (std::is_same_v<V, float>) {
        return static_cast<float>(*from);
    } else {
        return load_f16(from);
    }
}

AUTOLAUNCH_INLINE void narrow(float value, float* to) { *to = value; }
AUTOLAUNCH_INLINE void narrow(float value, bfloat16* to) {
    to->bits = static_cast<std::uint16_t>(
        nearest_bf16(same_bits<std::uint32_t>(value), value != value) >> 16);
}
AUTOLAUNCH_INLINE void narrow(float value, float16* to) { *to = float16(value); }

// Two registers of numbers that lie together are written at once: half a register is slow to write.

AUTOLAUNCH_INLINE void narrow_two(Floats first, Floats second, float* to) {
    store(to, first);
    store(to + kLanes, second);
}
AUTOLAUNCH_INLINE void narrow_two(Floats first, Floats second, bfloat16* to) {
    store_upper_halves(nearest_bf16(same_bits<Words>(first), first != first),
                       nearest_bf16(same_bits<Words>(second), second != second), to);
}
AUTOLAUNCH_INLINE void narrow_two(Floats first, Floats second, float16* to) {
    store(to, store_f16(first));
    store(to + kLanes, store_f16(second));
}

template <class T>
AUTOLAUNCH_KERNEL void widen_all(const T* from, float* to, std::size_t count) {
    std::size_t i = 0;
    if constexpr (kLanes > 1)
        for (; i + kLanes <= count; i += kLanes)
            store(to + i, widened<Floats>(from + i));
    for (; i < count; ++i)
        to[i] = widened<float>(from + i);
}

template <class T>
AUTOLAUNCH_KERNEL void narrow_all(const float* from, T* to, std::size_t count) {
    std::size_t i = 0;
    if constexpr (kLanes > 1)
        for (; i + 2 * kLanes <= count; i += 2 * kLanes)
            narrow_two(load<Floats>(from + i), load<Floats>(from + i + kLanes), to + i);
    for (; i < count; ++i)
        narrow(from[i], to + i);
}

/// The arrays of a range. Param is void where the master is what ranks gather.
template <class Gradient, class Master, class Param>
struct TypedRange {
    const Gradient* gradient;
    Master* master;
    float* first_state;
    float* second_state;
    Param* param;

    explicit TypedRange(const ElementRange& range)
        : gradient(static_cast<const Gradient*>(range.gradient)),
          master(static_cast<Master*>(range.master)),
          first_state(range.first_state),
          second_state(range.second_state),
          param(static_cast<Param*>(range.param)) {}
};

/// The new values of the elements from i on, whose states are written.
template <class V, class Step, class Range>
AUTOLAUNCH_INLINE V stepped(const Step& step, const Range& r, std::size_t i) {
    V p = widened<V>(r.master + i), first = V{}, second = V{};
    if constexpr (kStates < Step >> 0)
        first = load<V>(r.first_state + i);
    if constexpr (kStates < Step >> 1)
        second = load<V>(r.second_state + i);
    step.apply(widened<V>(r.gradient + i), p, first, second);
    if constexpr (kStates < Step >> 0)
        store(r.first_state + i, first);
    if constexpr (kStates < Step >> 1)
        store(r.second_state + i, second);
    return p;
}

template <class Step, class Gradient, class Param>
AUTOLAUNCH_INLINE void update_range(const Step& step, const TypedRange<Gradient, float, Param>& r,
                                    const ElementRange& range) {
    std::size_t i = 0;
    if constexpr (kLanes > 1) {
        for (; i + 2 * kLanes <= range.count; i += 2 * kLanes) {
            const Floats first = stepped<Floats>(step, r, i),
                         second = stepped<Floats>(step, r, i + kLanes);
            narrow_two(first, second, r.master + i);
            if constexpr (!std::is_void_v<Param>)
                narrow_two(first, second, r.param + i);
        }
    }
    for (; i < range.count; ++i) {
        const float value = stepped<float>(step, r, i);
        r.master[i] = value;
        if constexpr (!std::is_void_v<Param>)
            narrow(value, r.param + i);
    }
}

template <class Step, class Gradient, class Param>
AUTOLAUNCH_INLINE void round_one(const Step& step, const TypedRange<Gradient, bfloat16, Param>& r,
                                 std::size_t i, std::uint32_t random) {
    const float value = stepped<float>(step, r, i);
    r.master[i].bits = static_cast<std::uint16_t>(
        randomly_rounded_bf16(same_bits<std::uint32_t>(value), random, value != value) >> 16);
    if constexpr (!std::is_void_v<Param>)
        r.param[i] = r.master[i];
}

/// Two registers of elements, with their random bits.
template <class Step, class Gradient, class Param>
AUTOLAUNCH_INLINE void round_two(const Step& step, const TypedRange<Gradient, bfloat16, Param>& r,
                                 std::size_t i, Words random, Words second_random) {
    const Floats first = stepped<Floats>(step, r, i), second = stepped<Floats>(step, r, i + kLanes);
    const auto words = randomly_rounded_bf16(same_bits<Words>(first), random, first != first);
    const auto second_words =
        randomly_rounded_bf16(same_bits<Words>(second), second_random, second != second);
    store_upper_halves(words, second_words, r.master + i);
    if constexpr (!std::is_void_v<Param>)
        store_upper_halves(words, second_words, r.param + i);
}

/// kRoundingBlock elements from i on, a block of their parameter, too; `number` is that of its
/// first random word.
template <class Step, class Range>
AUTOLAUNCH_INLINE void round_block(const Step& step, const Range& r, std::size_t i, RoundingKey key,
                                   std::uint64_t number) {
    constexpr std::size_t kWords = kRoundingBlock / 2;
    static_assert(kLanes == kWords || 2 * kLanes == kWords || kLanes == 1);
    std::uint32_t places[kWords];
    for (std::uint32_t word = 0; word < kWords; ++word)
        places[word] = word;
    const Words numbers = load<Words>(places) + static_cast<std::uint32_t>(number);
    const RoundingKey block_key = key_from(key, static_cast<std::uint32_t>(number >> 32));
    const Words words = random_words<Words>(block_key, numbers);
    if constexpr (kLanes == kWords) {
        round_two(step, r, i, words & 0xffffu, words >> 16);
    } else {
        const Words others =
            random_words<Words>(block_key, numbers + static_cast<std::uint32_t>(kLanes));
        round_two(step, r, i, words & 0xffffu, others & 0xffffu);
        round_two(step, r, i + kWords, words >> 16, others >> 16);
    }
}

constexpr std::size_t kFetchedAhead = 12 * kRoundingBlock;  // elements; measured

/// Rounding at random takes a CPU as long as its share of the memory does, so its own window is too
/// short to have the next elements on their way meanwhile. Of kRoundingBlock elements from i on;
/// past the end it does nothing.
template <class Step, class Range>
AUTOLAUNCH_INLINE void fetch_block(const Range& r, std::size_t i) {
    constexpr std::size_t kLine = 64 / sizeof(float);
    __builtin_prefetch(r.gradient + i);
    __builtin_prefetch(r.master + i);
    for (std::size_t k = 0; k < kRoundingBlock; k += kLine) {
        if constexpr (kStates < Step >> 0)
            __builtin_prefetch(r.first_state + i + k);
        if constexpr (kStates < Step >> 1)
            __builtin_prefetch(r.second_state + i + k);
    }
}

template <class Step, class Gradient, class Param>
AUTOLAUNCH_INLINE void update_range(const Step& step,
                                    const TypedRange<Gradient, bfloat16, Param>& r,
                                    const ElementRange& range) {
    for (std::size_t i = 0; i < range.count;) {
        const std::uint64_t index = range.index + i;
        if (kLanes > 1 && index % kRoundingBlock == 0 && i + kRoundingBlock <= range.count) {
            fetch_block<Step>(r, i + kFetchedAhead);
            if constexpr (kLanes > 1)
                round_block(step, r, i, range.key, index / 2);
            i += kRoundingBlock;
        } else {
            round_one(step, r, i, random_bits(range.key, index));
            ++i;
        }
    }
}

template <class Step, class Factors, class Gradient, class Master, class Param>
AUTOLAUNCH_KERNEL void update(const Factors& factors, const ElementRange& range) {
    const ElementRange own = range;  // nothing that is written can be it
    update_range(Step{factors}, TypedRange<Gradient, Master, Param>(own), own);
}

constexpr std::size_t kDoubles = kLanes > 1 ? kLanes / 2 : 1;  // in a register

/// The upper half of the lanes is added to the lower one, until one is left.
AUTOLAUNCH_INLINE double folded(double* lanes) {
    for (std::size_t width = kSumLanes / 2; width > 0; width /= 2)
        for (std::size_t lane = 0; lane < width; ++lane)
            lanes[lane] += lanes[lane + width];
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
            const Part values =
                __builtin_convertvector(load<NarrowPart>(from + row + part * kDoubles), Part);
            parts[part] += values * values;
        }
    }
    for (std::size_t width = kParts / 2; width > 0; width /= 2)
        for (std::size_t part = 0; part < width; ++part)
            parts[part] += parts[part + width];
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
    if (whole * kSumBlock < count)
        sums[whole] = short_block_sum(from + whole * kSumBlock, count - whole * kSumBlock);
}

template <class Step, class Factors, class Gradient>
constexpr typename UpdateLoops<Factors>::OfGradient kLoopsOfGradient = {
    update<Step, Factors, Gradient, float, void>,
    update<Step, Factors, Gradient, float, float>,
    update<Step, Factors, Gradient, float, bfloat16>,
    update<Step, Factors, Gradient, float, float16>,
    update<Step, Factors, Gradient, bfloat16, void>,
    update<Step, Factors, Gradient, bfloat16, bfloat16>};

template <class Step, class Factors>
constexpr UpdateLoops<Factors> kLoops = {kLoopsOfGradient<Step, Factors, float>,
                                         kLoopsOfGradient<Step, Factors, bfloat16>,
                                         kLoopsOfGradient<Step, Factors, float16>};

constexpr OptimizerKernels kernels_named(std::string_view name) {
    return {name,
            kLoops<AdamWStep, AdamWFactors>,
            kLoops<SGDStep, SGDFactors>,
            kLoops<SGDMomentumStep, SGDFactors>,
            kLoops<LionStep, LionFactors>,
            widen_all<bfloat16>,
            widen_all<float16>,
            narrow_all<bfloat16>,
            narrow_all<float16>,
            sum_blocks};
}
