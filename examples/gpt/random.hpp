#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <string_view>

namespace gpt {

/// Random numbers without state: each is a function of what it is for (a seed, a step, an index,
/// …), so nothing about the generator has to be saved, and no rank has to know what another one
/// drew. The mixing is SplitMix64's (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number
/// Generators").
inline std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

inline std::uint64_t random_bits(std::initializer_list<std::uint64_t> purpose) {
    std::uint64_t state = 0;
    for (const std::uint64_t part : purpose)
        state = mixed(state ^ part);
    return state;
}

/// A number for a name, to be a part of a purpose (FNV-1a).
inline std::uint64_t number_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char letter : name)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
    return hash;
}

/// In (0, 1).
inline double uniform(std::uint64_t bits) {
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

/// Normal, mean 0 and deviation 1 (Box & Muller).
inline double normal(std::uint64_t bits) {
    return std::sqrt(-2 * std::log(uniform(bits))) *
           std::cos(2 * std::numbers::pi * uniform(mixed(bits)));
}

}  // namespace gpt
