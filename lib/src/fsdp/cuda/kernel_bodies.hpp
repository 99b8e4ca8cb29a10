// What each thread of a kernel does. Compiled twice: by nvcc into the kernels (kernels.cu), and by
// the C++ compiler into tests, which run every thread one after the other. Included once, inside a
// namespace, after
//   AUTOLAUNCH_INLINE                 the attributes of a function that is part of its caller
//   square_root(float)                rounded correctly
//   half_to_float(), float_to_half()  f16 by its bits
//   stream_in(pointer)                a load of what nobody reads again
//   lower(std::uint64_t*, value)      the minimum, atomically
// All memory is read and written 16 bytes at a time, but for the end of a parameter.

#include "fsdp/optimizer/element_steps.hpp"
#include "fsdp/optimizer/exact_digits.hpp"

/// Where a thread is in its grid.
struct GridPlace {
    unsigned block, blocks, thread, threads;
};

// How a type's numbers lie in memory.

struct F32Memory {
    using Stored = float;
    static AUTOLAUNCH_INLINE float widen(float value) { return value; }
    static AUTOLAUNCH_INLINE float narrow(float value) { return value; }
};

struct Bf16Memory {
    using Stored = std::uint16_t;
    static AUTOLAUNCH_INLINE float widen(std::uint16_t bits) {
        const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
        float value = 0;
        memcpy(&value, &word, sizeof value);
        return value;
    }
    static AUTOLAUNCH_INLINE std::uint16_t narrow(float value) {
        std::uint32_t word = 0;
        memcpy(&word, &value, sizeof word);
        return static_cast<std::uint16_t>(nearest_bf16(word, value != value) >> 16);
    }
};

struct F16Memory {
    using Stored = std::uint16_t;
    static AUTOLAUNCH_INLINE float widen(std::uint16_t bits) { return half_to_float(bits); }
    static AUTOLAUNCH_INLINE std::uint16_t narrow(float value) { return float_to_half(value); }
};

/// No memory: a parameter that is its own master.
struct NoMemory {};

struct alignas(16) Packet {
    std::uint32_t words[4];
};

/// N elements that lie together, as f32; N fills whole packets.
template <class Memory, int N, bool is_last_use = false>
AUTOLAUNCH_INLINE void load_group(const void* memory, std::uint64_t first, float* values) {
    using Stored = typename Memory::Stored;
    constexpr int kPacked = 16 / static_cast<int>(sizeof(Stored));
    static_assert(N % kPacked == 0);
    const auto* from = reinterpret_cast<const Packet*>(static_cast<const Stored*>(memory) + first);
    for (int i = 0; i < N / kPacked; ++i) {
        const Packet packet = is_last_use ? stream_in(from + i) : from[i];
        Stored stored[kPacked];
        memcpy(stored, &packet, sizeof packet);
        for (int k = 0; k < kPacked; ++k)
            values[i * kPacked + k] = Memory::widen(stored[k]);
    }
}

template <class Memory, int N>
AUTOLAUNCH_INLINE void store_group(void* memory, std::uint64_t first, const float* values) {
    using Stored = typename Memory::Stored;
    constexpr int kPacked = 16 / static_cast<int>(sizeof(Stored));
    auto* to = reinterpret_cast<Packet*>(static_cast<Stored*>(memory) + first);
    for (int i = 0; i < N / kPacked; ++i) {
        Stored stored[kPacked];
        for (int k = 0; k < kPacked; ++k)
            stored[k] = Memory::narrow(values[i * kPacked + k]);
        Packet packet;
        memcpy(&packet, stored, sizeof packet);
        to[i] = packet;
    }
}

template <class Memory>
AUTOLAUNCH_INLINE float load_one(const void* memory, std::uint64_t at) {
    return Memory::widen(static_cast<const typename Memory::Stored*>(memory)[at]);
}

template <class Memory>
AUTOLAUNCH_INLINE void store_one(void* memory, std::uint64_t at, float value) {
    static_cast<typename Memory::Stored*>(memory)[at] = Memory::narrow(value);
}

// The algorithms: which step with which numbers. `first` as Algorithm::update() has it.

struct AdamWKernel {
    using Factors = AdamWFactors;
    static constexpr int kStates = 2;
    static AUTOLAUNCH_INLINE AdamWStep step(AdamWFactors f, bool) { return {f}; }
};
struct SGDKernel {
    using Factors = SGDFactors;
    static constexpr int kStates = 0;
    static AUTOLAUNCH_INLINE SGDStep step(SGDFactors f, bool) { return {f}; }
};
struct SGDMomentumKernel {
    using Factors = SGDFactors;
    static constexpr int kStates = 1;
    static AUTOLAUNCH_INLINE SGDMomentumStep step(SGDFactors f, bool first) {
        if (first) {
            f.momentum = 0;
            f.one_minus_dampening = 1;
        }
        return {f};
    }
};
struct LionKernel {
    using Factors = LionFactors;
    static constexpr int kStates = 1;
    static AUTOLAUNCH_INLINE LionStep step(LionFactors f, bool) { return {f}; }
};

template <class Memory>
constexpr bool kIsHalf = sizeof(typename Memory::Stored) == 2;
template <>
constexpr bool kIsHalf<NoMemory> = false;
template <class A, class B>
constexpr bool kIsSame = false;
template <class A>
constexpr bool kIsSame<A, A> = true;

/// Masters in bf16 are rounded at random, and are what ranks gather; those in f32 may have a
/// rounded copy, Param.
template <class Algorithm, class Gradient, class Master, class Param>
struct ChunkUpdate {
    static constexpr bool kRounds = kIsSame<Master, Bf16Memory>;
    static constexpr bool kHasParam = !kIsSame<Param, NoMemory>;
    static constexpr int kGroup = kIsHalf<Gradient> || kIsHalf<Master> || kIsHalf<Param> ? 8 : 4;

    const UpdateShard& shard;
    const UpdateChunk& chunk;
    RoundingKey key;

    AUTOLAUNCH_INLINE std::uint16_t rounded(float value, std::uint64_t at) const {
        const std::uint64_t index = chunk.parameter_offset + at;
        std::uint32_t word = 0;
        memcpy(&word, &value, sizeof word);
        return static_cast<std::uint16_t>(
            randomly_rounded_bf16(word, random_bits(key, index), value != value) >> 16);
    }

    template <class Step>
    AUTOLAUNCH_INLINE void update_group(const Step& step, std::uint64_t at) const {
        const std::uint64_t first = chunk.shard_offset + at;
        float g[kGroup], p[kGroup], s0[kGroup] = {}, s1[kGroup] = {};
        load_group<Gradient, kGroup, true>(shard.gradient, first, g);
        load_group<Master, kGroup>(shard.master, first, p);
        if constexpr (Algorithm::kStates > 0)
            load_group<F32Memory, kGroup>(shard.first_state, first, s0);
        if constexpr (Algorithm::kStates > 1)
            load_group<F32Memory, kGroup>(shard.second_state, first, s1);
        for (int i = 0; i < kGroup; ++i)
            step.apply(g[i], p[i], s0[i], s1[i]);
        if constexpr (kRounds)
            for (int i = 0; i < kGroup; ++i)
                p[i] = Bf16Memory::widen(rounded(p[i], at + static_cast<unsigned>(i)));
        store_group<Master, kGroup>(shard.master, first, p);
        if constexpr (Algorithm::kStates > 0)
            store_group<F32Memory, kGroup>(shard.first_state, first, s0);
        if constexpr (Algorithm::kStates > 1)
            store_group<F32Memory, kGroup>(shard.second_state, first, s1);
        if constexpr (kHasParam)
            store_group<Param, kGroup>(shard.param, first, p);
    }

    template <class Step>
    AUTOLAUNCH_INLINE void update_one(const Step& step, std::uint64_t at) const {
        const std::uint64_t first = chunk.shard_offset + at;
        float p = load_one<Master>(shard.master, first), s0 = 0, s1 = 0;
        if constexpr (Algorithm::kStates > 0)
            s0 = shard.first_state[first];
        if constexpr (Algorithm::kStates > 1)
            s1 = shard.second_state[first];
        step.apply(load_one<Gradient>(shard.gradient, first), p, s0, s1);
        if constexpr (kRounds)
            p = Bf16Memory::widen(rounded(p, at));
        store_one<Master>(shard.master, first, p);
        if constexpr (Algorithm::kStates > 0)
            shard.first_state[first] = s0;
        if constexpr (Algorithm::kStates > 1)
            shard.second_state[first] = s1;
        if constexpr (kHasParam)
            store_one<Param>(shard.param, first, p);
    }
};

template <class Algorithm, class Gradient, class Master, class Param>
AUTOLAUNCH_INLINE void update_chunks(GridPlace place, const UpdateArguments& arguments) {
    using Update = ChunkUpdate<Algorithm, Gradient, Master, Param>;
    const StepScale scale = *arguments.scale;
    if (scale.updates == 0)
        return;
    for (std::uint64_t c = place.block; c < arguments.chunk_count; c += place.blocks) {
        const UpdateChunk chunk = arguments.chunks[c];
        const UpdateShard shard = arguments.shards[chunk.shard];
        if (shard.has_gradient == 0)
            continue;
        auto factors =
            static_cast<const typename Algorithm::Factors*>(arguments.factors)[chunk.setting];
        factors.gradient_scale = scale.gradient_scale;
        const auto step = Algorithm::step(factors, shard.is_first != 0);
        RoundingKey key;
        if constexpr (Update::kRounds)
            key = arguments.keys[chunk.run];
        const Update update{shard, chunk, key};
        const unsigned groups = chunk.count / Update::kGroup;
        for (unsigned group = place.thread; group < groups; group += place.threads)
            update.update_group(step, static_cast<std::uint64_t>(group) * Update::kGroup);
        const unsigned left = chunk.count % Update::kGroup;
        if (place.thread < left)
            update.update_one(step, groups * Update::kGroup + place.thread);
    }
}

// Squares of a block of kSumBlock elements: four threads, each of which has four of the 16 lanes.

constexpr unsigned kQuad = 4;

/// What thread `quarter` of four has of the block's lanes, 4 · quarter and on. Elements from
/// `count` on are none.
template <class Gradient>
AUTOLAUNCH_INLINE void sum_lanes(const void* gradient, std::uint64_t first, unsigned count,
                                 unsigned quarter, double* lanes) {
    for (unsigned k = 0; k < 4; ++k)
        lanes[k] = 0;
    for (unsigned row = 0; row < kSumBlock; row += kSumLanes) {
        const unsigned at = row + 4 * quarter;
        float values[4] = {};
        if (at + 4 <= count) {
            using Stored = typename Gradient::Stored;
            struct alignas(4 * sizeof(Stored)) Four {
                Stored stored[4];
            };
            const Four four =
                *reinterpret_cast<const Four*>(static_cast<const Stored*>(gradient) + first + at);
            for (unsigned k = 0; k < 4; ++k)
                values[k] = Gradient::widen(four.stored[k]);
        } else {
            for (unsigned k = 0; k < 4; ++k)
                if (at + k < count)
                    values[k] = load_one<Gradient>(gradient, first + at + k);
        }
        for (unsigned k = 0; k < 4; ++k)
            lanes[k] += static_cast<double>(values[k]) * static_cast<double>(values[k]);
    }
}

/// The last four lanes of a block are one number.
AUTOLAUNCH_INLINE double fold_four(const double* lanes) {
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

AUTOLAUNCH_INLINE void carry_words(const CarryArguments& arguments) {
    carry_exactly(arguments.words);
    for (int i = 0; i < kExactWords; ++i)
        arguments.sums[i] = static_cast<double>(arguments.words[i]);
}

/// torch.nn.utils.clip_grad_norm_'s factor; a NaN is not hidden.
AUTOLAUNCH_INLINE double clip_factor(double norm, double max_norm) {
    if (norm != norm)
        return norm;
    const double factor = max_norm / (norm + 1e-6);
    return factor < 1.0 ? factor : 1.0;
}

AUTOLAUNCH_INLINE void set_scale(const ScaleArguments& arguments) {
    std::int64_t words[kExactWords];
    for (int i = 0; i < kExactWords; ++i)
        words[i] = static_cast<std::int64_t>(arguments.sums[i]);
    const bool has_nan = words[kExactDigits + 1] != 0, has_infinity = words[kExactDigits] != 0;
    carry_exactly(words);
    double sum = value_of_digits(words);
    if (has_infinity)
        sum = HUGE_VAL;
    if (has_nan)
        sum = HUGE_VAL - HUGE_VAL;
    StepScale scale;
    scale.sum_norm = sqrt(sum);
    const double norm = scale.sum_norm * arguments.average;
    const double clip = arguments.max_norm < 0 ? 1.0 : clip_factor(norm, arguments.max_norm);
    scale.gradient_scale = static_cast<float>(arguments.average * clip);
    scale.updates = arguments.needs_finite != 0 && (has_nan || has_infinity) ? 0 : 1;
    *arguments.scale = scale;
}

// What the engine does with whole arrays.

constexpr unsigned kCastGroup = 8;

template <class To, class From, bool adds>
AUTOLAUNCH_INLINE void cast_all(GridPlace place, const CastArguments& arguments) {
    const std::uint64_t groups = arguments.count / kCastGroup;
    const std::uint64_t stride = static_cast<std::uint64_t>(place.blocks) * place.threads;
    const std::uint64_t own =
        static_cast<std::uint64_t>(place.block) * place.threads + place.thread;
    for (std::uint64_t group = own; group < groups; group += stride) {
        float values[kCastGroup], before[kCastGroup];
        load_group<From, kCastGroup>(arguments.from, group * kCastGroup, values);
        if constexpr (adds) {
            load_group<To, kCastGroup>(arguments.to, group * kCastGroup, before);
            for (unsigned i = 0; i < kCastGroup; ++i)
                values[i] = before[i] + values[i];
        }
        store_group<To, kCastGroup>(arguments.to, group * kCastGroup, values);
    }
    const std::uint64_t at = groups * kCastGroup + own;
    if (at >= arguments.count)
        return;
    float value = load_one<From>(arguments.from, at);
    if constexpr (adds)
        value = load_one<To>(arguments.to, at) + value;
    store_one<To>(arguments.to, at, value);
}

template <class Memory>
AUTOLAUNCH_INLINE void find_nonfinite(GridPlace place, const FindArguments& arguments) {
    const std::uint64_t groups = arguments.count / kCastGroup;
    const std::uint64_t stride = static_cast<std::uint64_t>(place.blocks) * place.threads;
    const std::uint64_t own =
        static_cast<std::uint64_t>(place.block) * place.threads + place.thread;
    std::uint64_t first = kNoIndex;
    for (std::uint64_t group = own; group < groups && first == kNoIndex; group += stride) {
        float values[kCastGroup];
        load_group<Memory, kCastGroup>(arguments.values, group * kCastGroup, values);
        for (unsigned i = kCastGroup; i-- > 0;)
            if (!(values[i] - values[i] == 0))
                first = group * kCastGroup + i;
    }
    const std::uint64_t at = groups * kCastGroup + own;
    if (at < arguments.count && first == kNoIndex) {
        const float value = load_one<Memory>(arguments.values, at);
        if (!(value - value == 0))
            first = at;
    }
    if (first != kNoIndex)
        lower(arguments.first, first);
}

// Sums over ranks in one order. Eight parts at a time are loaded side by side and added as a tree;
// the trees are the digits of a binary counter, as GradientTree's are.

constexpr unsigned kTreeParts = 8;
constexpr unsigned kTreeDigits = 24;  // of 8, 16, 32, … ranks

/// N elements from `first` on: a group, or one.
template <int N>
AUTOLAUNCH_INLINE void load_part(const SumArguments& arguments, unsigned rank, std::uint64_t first,
                                 float* values) {
    const float* part = arguments.to;
    if (rank != arguments.rank)
        part = arguments.others + (rank - (rank > arguments.rank ? 1 : 0)) * arguments.stride;
    if constexpr (N == 1)
        values[0] = part[first];
    else
        load_group<F32Memory, N>(part, first, values);
}

/// The sum of up to eight ranks' parts from `begin` on; of those beyond the last rank there is
/// nothing.
template <int N>
AUTOLAUNCH_INLINE void sum_tree(const SumArguments& arguments, unsigned begin, std::uint64_t first,
                                float* sum) {
    float values[kTreeParts][N] = {};
    for (unsigned i = 0; i < kTreeParts; ++i)
        if (begin + i < arguments.ranks)
            load_part<N>(arguments, begin + i, first, values[i]);
    for (unsigned distance = 1; distance < kTreeParts; distance *= 2)
        for (unsigned i = 0; i + distance < kTreeParts; i += 2 * distance)
            if (begin + i + distance < arguments.ranks)
                for (int k = 0; k < N; ++k)
                    values[i][k] = values[i][k] + values[i + distance][k];
    for (int k = 0; k < N; ++k)
        sum[k] = values[0][k];
}

template <int N>
AUTOLAUNCH_INLINE void sum_trees(const SumArguments& arguments, std::uint64_t first, float* sum) {
    sum_tree<N>(arguments, 0, first, sum);
    if (arguments.ranks <= kTreeParts)
        return;
    float digits[kTreeDigits][N];
    for (int k = 0; k < N; ++k)
        digits[0][k] = sum[k];
    unsigned trees = 1;
    for (unsigned begin = kTreeParts; begin < arguments.ranks; begin += kTreeParts, ++trees) {
        sum_tree<N>(arguments, begin, first, sum);
        unsigned digit = 0;
        for (; (trees >> digit & 1) != 0; ++digit)
            for (int k = 0; k < N; ++k)
                sum[k] = digits[digit][k] + sum[k];
        for (int k = 0; k < N; ++k)
            digits[digit][k] = sum[k];
    }
    bool holds = false;
    for (unsigned digit = 0; trees >> digit != 0; ++digit) {
        if ((trees >> digit & 1) == 0)
            continue;
        for (int k = 0; k < N; ++k)
            sum[k] = holds ? digits[digit][k] + sum[k] : digits[digit][k];
        holds = true;
    }
}

AUTOLAUNCH_INLINE void add_parts(GridPlace place, const SumArguments& arguments) {
    const std::uint64_t groups = arguments.count / kCastGroup;
    const std::uint64_t stride = static_cast<std::uint64_t>(place.blocks) * place.threads;
    const std::uint64_t own =
        static_cast<std::uint64_t>(place.block) * place.threads + place.thread;
    float sum[kCastGroup];
    for (std::uint64_t group = own; group < groups; group += stride) {
        sum_trees<kCastGroup>(arguments, group * kCastGroup, sum);
        store_group<F32Memory, kCastGroup>(arguments.to, group * kCastGroup, sum);
    }
    const std::uint64_t at = groups * kCastGroup + own;
    if (at >= arguments.count)
        return;
    sum_trees<1>(arguments, at, sum);
    arguments.to[at] = sum[0];
}

// Every kernel that there is, by its parts' names: X(algorithm, name), and so on.
// clang-format off
#define AUTOLAUNCH_ALGORITHMS(X) \
    X(AdamWKernel, adamw) X(SGDKernel, sgd) X(SGDMomentumKernel, sgd_momentum) X(LionKernel, lion)
#define AUTOLAUNCH_UPDATE_TYPES(X, algorithm, name)                        \
    X(algorithm, name, F32Memory, f32, F32Memory, f32, NoMemory, f32)      \
    X(algorithm, name, F32Memory, f32, F32Memory, f32, Bf16Memory, bf16)   \
    X(algorithm, name, F32Memory, f32, F32Memory, f32, F16Memory, f16)     \
    X(algorithm, name, F32Memory, f32, Bf16Memory, bf16, NoMemory, bf16)   \
    X(algorithm, name, Bf16Memory, bf16, F32Memory, f32, NoMemory, f32)    \
    X(algorithm, name, Bf16Memory, bf16, F32Memory, f32, Bf16Memory, bf16) \
    X(algorithm, name, Bf16Memory, bf16, F32Memory, f32, F16Memory, f16)   \
    X(algorithm, name, Bf16Memory, bf16, Bf16Memory, bf16, NoMemory, bf16) \
    X(algorithm, name, F16Memory, f16, F32Memory, f32, NoMemory, f32)      \
    X(algorithm, name, F16Memory, f16, F32Memory, f32, Bf16Memory, bf16)   \
    X(algorithm, name, F16Memory, f16, F32Memory, f32, F16Memory, f16)     \
    X(algorithm, name, F16Memory, f16, Bf16Memory, bf16, NoMemory, bf16)
#define AUTOLAUNCH_TYPES(X) X(F32Memory, f32) X(Bf16Memory, bf16) X(F16Memory, f16)
#define AUTOLAUNCH_TYPE_PAIRS(X)                                                                                \
    X(F32Memory, f32, F32Memory, f32) X(F32Memory, f32, Bf16Memory, bf16) X(F32Memory, f32, F16Memory, f16)     \
    X(Bf16Memory, bf16, F32Memory, f32) X(Bf16Memory, bf16, Bf16Memory, bf16) X(Bf16Memory, bf16, F16Memory, f16) \
    X(F16Memory, f16, F32Memory, f32) X(F16Memory, f16, Bf16Memory, bf16) X(F16Memory, f16, F16Memory, f16)
// clang-format on
