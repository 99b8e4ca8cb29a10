#pragma once
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The whole program: arguments (without its own name) and environment to an exit code
/// (exit_codes/exit_codes.hpp). Errors are printed to stderr here, and only here. Blocks until the
/// job is over.
int run_program(const std::vector<std::string>& arguments,
                const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
