// The arithmetic of the optimizers on one element, the one place that says it: the loops of CPUs (kernel_loops.hpp) and
// the kernels of GPUs (cuda/kernel_bodies.hpp) include it, each inside a namespace of its own, after
//   AUTOLAUNCH_INLINE   the attributes of a function that is part of its caller
//   square_root()       rounded correctly
// V is a float or a register of floats. Both compile without contraction (a product and a sum must not become one
// rounding) and without flushing small numbers, so each element gets the bits that plain C++ gives.

struct AdamWStep {
    AdamWFactors f;
    template <class V>
    AUTOLAUNCH_INLINE void apply(V gradient, V& p, V& m, V& v) const {
        const V g = gradient * f.gradient_scale;
        m = m * f.beta1 + g * f.one_minus_beta1;
        v = v * f.beta2 + f.one_minus_beta2 * g * g;
        const V denominator = square_root(v) / f.root_correction2 + f.eps;
        p = p * f.decay - f.step_size * m / denominator;
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

/// The bits of f32 numbers as those of bf16, to nearest, ties to even; a NaN keeps its upper bits and becomes quiet.
template <class Words, class Mask>
AUTOLAUNCH_INLINE Words nearest_bf16(Words words, Mask is_nan) {
    const Words high = words >> 16;
    const Words rounded = (words + 0x7fffu + (high & 1u)) >> 16;
    return is_nan ? (high | 0x40u) : rounded;
}

// Austin Appleby's finalizer of MurmurHash3 (fmix32, in the public domain): every bit of the input changes every bit of
// the output with a probability near one half, and no two inputs have one output.
template <class Words>
AUTOLAUNCH_INLINE Words mixed(Words word) {
    word ^= word >> 16;
    word *= 0x85ebca6bu;
    word ^= word >> 13;
    word *= 0xc2b2ae35u;
    return word ^ (word >> 16);
}

/// The key for elements whose indices have this upper half.
AUTOLAUNCH_INLINE RoundingKey key_from(RoundingKey key, std::uint32_t upper_index) {
    return {key.low, key.high + upper_index * 0x9e3779b9u};
}

/// Adds 16 random bits below the ones that stay, and cuts: the value is rounded up as often as it is near the upper
/// neighbour. `indices` are the lower halves of the elements' indices.
template <class Words>
AUTOLAUNCH_INLINE Words randomly_rounded_bf16(RoundingKey key, Words indices, Words words) {
    const Words random = mixed<Words>(mixed<Words>(indices ^ key.low) ^ key.high) >> 16;
    const Words magnitude = words & 0x7fffffffu;
    const Words kept = words >> 16;
    const Words quiet = magnitude > 0x7f800000u ? (kept | 0x40u) : kept;
    return magnitude >= 0x7f800000u ? quiet : ((words + random) >> 16);
}
