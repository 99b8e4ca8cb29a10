#pragma once
#include "exit_codes/exit_codes.hpp"
#include "report/screen.hpp"
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

/// Each on stderr; the exit code.
inline int complain_of_spec(const std::vector<SpecError>& errors, const Screen& screen) {
    for (const SpecError& error : errors)
        screen.complain("autolaunch: " + to_string(error));
    return exit_code_of_spec(errors);
}

}  // namespace autolaunch::launcher
