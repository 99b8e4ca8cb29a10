#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class PolicyAction { show, render_slurm, render_nftables, diff };

struct PolicyRequest {
    PolicyAction action = PolicyAction::show;
    std::string site_file;              ///< a draft; empty: the administrator's own file
    std::string folder;                 ///< render's
    std::string interface;              ///< render nftables': of the jobs
    std::vector<std::string> networks;  ///< render nftables': NAME=CIDR[,CIDR...]
    bool json = false;
};

struct PolicyOutcome {
    std::string text;  ///< JSON where it was asked for
    std::vector<std::string> notes;
    int exit_code = 0;  ///< 1: diff found a difference
};

/// `autolaunch policy show`, `render slurm`, `render nftables` and `diff`. Throws Error. Blocks: 30
/// s at most, where Slurm is asked.
PolicyOutcome run_policy_command(const PolicyRequest& request);

}  // namespace autolaunch::launcher
