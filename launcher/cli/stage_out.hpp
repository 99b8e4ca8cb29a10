#pragma once
#include "cli/options.hpp"
#include "report/screen.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// `autolaunch stage-out`. An exit code of docs/exit-codes.md. Throws Error.
int finish_stage_out(const CommandLine& line, const std::map<std::string, std::string>& environment,
                     const Screen& screen);

}  // namespace autolaunch::launcher
