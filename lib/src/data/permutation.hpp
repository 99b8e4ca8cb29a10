#pragma once
#include <cstdint>

namespace autolaunch::data {

/// splitmix64's output function (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
std::uint64_t mix(std::uint64_t bits);
/// A key of three numbers: TokenReader's comment has the formula.
std::uint64_t key_of(std::uint64_t a, std::uint64_t b, std::uint64_t c);

/// A random order of [0, count) that is computed where it is asked for: a Feistel network, walked
/// in its cycle until it is in range (Black & Rogaway, "Ciphers with Arbitrary Finite Domains",
/// 2002). TokenReader's comment has the formula. Pure.
class Permutation {
public:
    /// `count` >= 1.
    Permutation(std::uint64_t count, std::uint64_t key);
    /// `i` < count; about 4 rounds of the network at most on average.
    std::uint64_t operator()(std::uint64_t i) const;

private:
    static constexpr int kRounds = 6;
    std::uint64_t once(std::uint64_t i) const;

    std::uint64_t count_;
    int half_bits_ = 0;
    std::uint64_t keys_[kRounds] = {};
};

}  // namespace autolaunch::data
