#pragma once
#include "cli/options.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

struct LintOutcome {
    std::string text;
    int exit_code = 0;
};

/// `autolaunch lint`: reads the files, and slurm.conf where it is given, and says what is wrong with them. Folders of
/// --output are looked for from where it was started, as sbatch would. Throws Error for files that cannot be read.
LintOutcome lint_files(const CommandLine& line, const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
