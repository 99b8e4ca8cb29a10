#pragma once
#include "cli/options.hpp"
#include "report/screen.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// `autolaunch submit`. Its exit code; throws Error. Blocks as submit_to_slurm().
int submit_job(const CommandLine& line, const std::map<std::string, std::string>& environment,
               const Screen& screen);

/// `autolaunch sweep`. Its exit code; throws Error. Blocks as run_sweep_command().
int run_sweep(const CommandLine& line, const std::map<std::string, std::string>& environment,
              const Screen& screen);

}  // namespace autolaunch::launcher
