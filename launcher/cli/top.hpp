#pragma once
#include "cli/options.hpp"
#include "report/screen.hpp"
#include "run/ask_job.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// `autolaunch top`. An exit code of docs/exit-codes.md. Throws Error.
int top_of_job(const CommandLine& line, const JobCall& call,
               const std::map<std::string, std::string>& environment, const Screen& screen);

}  // namespace autolaunch::launcher
