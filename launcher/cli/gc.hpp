#pragma once
#include "cli/options.hpp"
#include "report/screen.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// `autolaunch gc`. An exit code of docs/exit-codes.md. Throws Error.
int collect_left(const CommandLine& line, const std::map<std::string, std::string>& environment,
                 const Screen& screen);

}  // namespace autolaunch::launcher
