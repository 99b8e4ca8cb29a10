#pragma once
#include <autolaunch/cxx20.hpp>

#include <array>
#include <cstdint>

namespace autolaunch {

/// XXH3 with 128 bits: guards against accidents, not against people. Written as 32 lower-case
/// hexadecimal digits, the high half first.
struct Digest128 {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    bool operator==(const Digest128&) const = default;
};

/// SHA-256: also guards against people, where they cannot change it. Written as 64 lower-case
/// hexadecimal digits.
using Digest256 = std::array<std::uint8_t, 32>;

}  // namespace autolaunch
