#pragma once
#include <autolaunch/error.hpp>

namespace autolaunch::launcher {

/// What the program exits with when an error ends it: docs/exit-codes.md.
int exit_code_of(const Error& error);

}  // namespace autolaunch::launcher
