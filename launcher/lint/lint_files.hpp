#pragma once
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What to read, and how to say what was found.
struct LintFilesRequest {
    std::vector<std::string> files;
    std::string kind;        ///< --kind
    std::string slurm_conf;  ///< --slurm-conf
    bool rules = false;      ///< the list of rules instead
    bool markdown = false;   ///< as which it is written
    bool json = false;       ///< what was found
};

struct LintOutcome {
    std::string text;
    int exit_code = 0;
};

/// `autolaunch lint`: reads the files, and slurm.conf where it is given, and says what is wrong
/// with them. Folders of
/// --output are looked for from where it was started, as sbatch would. Throws Error for files that
/// cannot be read.
LintOutcome lint_files(const LintFilesRequest& asked,
                       const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
