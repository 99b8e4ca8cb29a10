#pragma once
#include "exit_codes/exit_codes.hpp"
#include "spec/spec.hpp"

#include <algorithm>
#include <vector>

namespace autolaunch::launcher {

/// 66 where nothing but files that cannot be read is wrong, else 65. Pure.
inline int exit_code_of_spec(const std::vector<SpecError>& errors) {
    const bool unreadable =
        std::all_of(errors.begin(), errors.end(), [](const SpecError& e) { return e.unreadable; });
    return unreadable ? exit_code::kNoInput : exit_code::kBadSpec;
}

}  // namespace autolaunch::launcher
