#pragma once
#include <cstdlib>

namespace autolaunch::fuzz {

/// What a check says holds of any bytes. A fuzzer keeps the input of which it does not.
inline void require(bool holds) {
    if (!holds)
        std::abort();
}

}  // namespace autolaunch::fuzz
