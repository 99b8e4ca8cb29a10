#include "data/permutation.hpp"

#include <bit>

namespace autolaunch::data {

namespace {
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
}  // namespace

std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

std::uint64_t key_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return mix(mix(mix(a + kGolden) ^ (b + kGolden)) ^ (c + kGolden));
}

Permutation::Permutation(std::uint64_t count, std::uint64_t key)
    : count_(count), half_bits_((std::bit_width(count - 1) + 1) / 2) {
    for (int round = 0; round < kRounds; ++round)
        keys_[round] = mix(key + static_cast<std::uint64_t>(round + 1) * kGolden);
}

std::uint64_t Permutation::once(std::uint64_t i) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (const std::uint64_t key : keys_) {
        const std::uint64_t next = left ^ (mix(right ^ key) & mask);
        left = right;
        right = next;
    }
    return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
    do
        i = once(i);
    while (i >= count_);
    return i;
}

}  // namespace autolaunch::data
