#pragma once
// Checks for code that runs in a rank's process, where no test framework counts: they throw.
#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace autolaunch::conformance {

inline void expect(bool holds, const std::string& what) {
    if (!holds)
        throw std::runtime_error("expected: " + what);
}

inline bool mentions(const Error& error, std::string_view text) {
    return std::string_view(error.what()).find(text) != std::string_view::npos;
}

/// Runs `call`, which must throw an E for which `as_wanted` holds.
template <class E, class Call, class Wanted>
void expect_throws(const std::string& what, const Call& call, const Wanted& as_wanted) {
    try {
        call();
    } catch (const E& error) {
        expect(as_wanted(error), fmt::format("{}, not '{}'", what, error.what()));
        return;
    }
    throw std::runtime_error("expected an exception: " + what);
}

}  // namespace autolaunch::conformance
