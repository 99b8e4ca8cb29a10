// The arithmetic of the optimizers on one element, the one place that says it: the loops of CPUs
// (kernel_loops.hpp) and the kernels of GPUs (cuda/kernel_bodies.hpp) include it, each inside a
// namespace of its own, after
//   AUTOLAUNCH_INLINE   the attributes of a function that is part of its caller
//   square_root()       rounded correctly
// V is a float or a register of floats. Both compile without contraction (a product and a sum must
// not become one rounding) and without flushing small numbers, so each element gets the bits that
// plain C++ gives.

struct AdamWStep {
    AdamWFactors f;
    template <class V>
    AUTOLAUNCH_INLINE void apply(V gradient, V& p, V& m, V& v) const {
        const V g = gradient * f.gradient_scale;
        m = m * f.beta1 + g * f.one_minus_beta1;
        v = v * f.beta2 + f.one_minus_beta2 * g * g;
        p = p * f.decay - f.step_size * m / (square_root(v) + f.eps);
    }
};

struct SGDStep {
    SGDFactors f;
    template <class V>
    AUTOLAUNCH_INLINE void apply(V gradient, V& p, V&, V&) const {
        const V d = gradient * f.gradient_scale + f.weight_decay * p;
        p = p - f.lr * d;
    }
};

struct SGDMomentumStep {
    SGDFactors f;
    template <class V>
    AUTOLAUNCH_INLINE void apply(V gradient, V& p, V& buffer, V&) const {
        const V d = gradient * f.gradient_scale + f.weight_decay * p;
        buffer = buffer * f.momentum + f.one_minus_dampening * d;
        p = p - f.lr * (f.direct * d + f.through_buffer * buffer);
    }
};

struct LionStep {
    LionFactors f;
    template <class V>
    AUTOLAUNCH_INLINE void apply(V gradient, V& p, V& m, V&) const {
        const V zero = V{};
        const V lr = zero + f.lr;
        const V g = gradient * f.gradient_scale;
        const V c = m * f.beta1 + g * f.one_minus_beta1;
        const V step = c > zero ? lr : (c < zero ? -lr : c);  // 0 stays 0, and NaN is not hidden
        p = p * f.decay - step;
        m = m * f.beta2 + g * f.one_minus_beta2;
    }
};

// A bf16 is the upper half of an f32. What these return has it there, the lower half is to be cut;
// a NaN keeps its upper bits and becomes quiet. The bits are those of the f32 numbers.

/// To nearest, ties to even.
template <class Words, class Mask>
AUTOLAUNCH_INLINE Words nearest_bf16(Words words, Mask is_nan) {
    const Words zero = Words{};
    const Words up = ((words >> 16) & 1u) + 0x7fffu;
    return (words + (is_nan ? zero : up)) | (is_nan ? zero + 0x400000u : zero);
}

/// Up by `random` of 65536 parts of what the lower half counts, so up as often as it is near the
/// upper neighbour.
template <class Words, class Mask>
AUTOLAUNCH_INLINE Words randomly_rounded_bf16(Words words, Words random, Mask is_nan) {
    const Words zero = Words{};
    return (words + (is_nan ? zero : random)) | (is_nan ? zero + 0x400000u : zero);
}

// Austin Appleby's finalizer of MurmurHash3 (fmix32, in the public domain): every bit of the input
// changes every bit of the output with a probability near one half, and no two inputs have one
// output.
template <class Words>
AUTOLAUNCH_INLINE Words mixed(Words word) {
    word ^= word >> 16;
    word *= 0x85ebca6bu;
    word ^= word >> 13;
    word *= 0xc2b2ae35u;
    return word ^ (word >> 16);
}

/// Two elements share a random word, which is what costs: of every 32 elements of a parameter,
/// those of the first half take the lower halves of 16 words, those of the second half the upper
/// ones. So a register of words is for two registers of elements, however wide they are.
constexpr std::uint64_t kRoundingBlock = 32;

/// The key for words whose numbers have this upper half.
AUTOLAUNCH_INLINE RoundingKey key_from(RoundingKey key, std::uint32_t upper_number) {
    return {key.low, key.high + upper_number * 0x9e3779b9u};
}

/// `numbers` are the lower halves of the words' numbers.
template <class Words>
AUTOLAUNCH_INLINE Words random_words(RoundingKey key, Words numbers) {
    return mixed<Words>(mixed<Words>(numbers ^ key.low) ^ key.high);
}

/// The 16 random bits of the element with this index in its parameter.
AUTOLAUNCH_INLINE std::uint32_t random_bits(RoundingKey key, std::uint64_t index) {
    constexpr std::uint64_t kWords = kRoundingBlock / 2;
    const std::uint64_t number = index / kRoundingBlock * kWords + index % kWords;
    const std::uint32_t word = random_words(key_from(key, static_cast<std::uint32_t>(number >> 32)),
                                            static_cast<std::uint32_t>(number));
    return index % kRoundingBlock < kWords ? word & 0xffffu : word >> 16;
}
