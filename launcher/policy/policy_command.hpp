#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class PolicyAction { show, render, diff };

struct PolicyRequest {
    PolicyAction action = PolicyAction::show;
    std::string site_file;  ///< a draft; empty: the administrator's own file
    std::string folder;     ///< render's
    bool json = false;
};

struct PolicyOutcome {
    std::string text;  ///< JSON where it was asked for
    std::vector<std::string> notes;
    int exit_code = 0;  ///< 1: diff found a difference
};

/// `autolaunch policy show`, `render slurm` and `diff`. Throws Error. Blocks: 30 s at most, where
/// Slurm is asked.
PolicyOutcome run_policy_command(const PolicyRequest& request);

}  // namespace autolaunch::launcher
