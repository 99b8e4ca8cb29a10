#pragma once
#include <cstdint>

namespace autolaunch {

/// XXH3 with 128 bits: guards against accidents, not against people. Written as 32 lower-case hexadecimal digits, the
/// high half first.
struct Digest128 {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    bool operator==(const Digest128&) const = default;
};

}  // namespace autolaunch
