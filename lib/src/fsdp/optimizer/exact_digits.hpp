// The arithmetic of exact_sum.hpp's numbers, for CPUs and GPUs: included inside a namespace of its
// own, after
//   AUTOLAUNCH_INLINE   the attributes of a function that is part of its caller

constexpr int kExactDigits = 20;    // of 32 bits
constexpr int kExactLowest = -352;  // the lowest is worth 2^-352
constexpr int kExactWords = kExactDigits + 2;

/// Calls add(word, amount) for what the sum grows by; `value` as ExactSum::add() takes it.
template <class Add>
AUTOLAUNCH_INLINE void add_exactly(double value, Add add) {
    std::uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
    if (exponent == 0)
        return;  // zero: squares of f32 numbers are never subnormal
    const std::uint64_t fraction = bits & 0xfffffffffffffULL;
    if (exponent == 0x7ff) {
        add(fraction != 0 ? kExactDigits + 1 : kExactDigits, std::int64_t{1});
        return;
    }
    // value = significand · 2^(exponent - 1075)
    const std::uint64_t significand = fraction | 0x10000000000000ULL;
    const int position = exponent - 1075 - kExactLowest;
    const int shift = position % 32;
    const std::uint64_t low = (significand & 0xffffffffu) << shift;
    const std::uint64_t high = ((significand >> 32) << shift) + (low >> 32);
    add(position / 32, static_cast<std::int64_t>(low & 0xffffffffu));
    add(position / 32 + 1, static_cast<std::int64_t>(high & 0xffffffffu));
    add(position / 32 + 2, static_cast<std::int64_t>(high >> 32));
}

AUTOLAUNCH_INLINE void carry_exactly(std::int64_t* words) {
    for (int i = 0; i + 1 < kExactDigits; ++i) {
        words[i + 1] += words[i] >> 32;
        words[i] &= 0xffffffff;
    }
}

/// Of words that were carried. Not for sums with infinities and NaN.
AUTOLAUNCH_INLINE double value_of_digits(const std::int64_t* words) {
    double value = 0;
    for (int i = kExactDigits; i-- > 0;)
        value += ldexp(static_cast<double>(words[i]), kExactLowest + 32 * i);
    return value;
}
