#pragma once
#include <cstddef>
#include <cstring>

namespace autolaunch {

/// A rank's own block: memcpy(), and nothing where it is in its place already.
inline void copy_unless_same(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes != 0 && to != from)
        std::memcpy(to, from, bytes);
}

}  // namespace autolaunch
