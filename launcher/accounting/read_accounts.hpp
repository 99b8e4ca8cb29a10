#pragma once
#include "accounting/usage.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What was typed behind `autolaunch report`.
struct AccountsRequest {
    std::string since = {}, by = "user";
    std::string rates = {};  ///< "gpu=2.10,cpu=0.02"
    bool csv = false;
    std::vector<std::string> folders = {};  ///< run directories, or folders that have such
};

/// "30d", "12h", "2w", or a day as 2026-11-01 (UTC). Throws UsageError. Pure.
AccountTime parse_since(const std::string& text, AccountTime now);
/// Throws UsageError. Pure.
UsageRequest usage_request(const AccountsRequest& typed, AccountTime now);

/// Asks sacct, and reads the run directories that are named, and those of jobs in
/// WORKDIR/runs/JOB. Throws Error where sacct does not answer. Blocks: until it has, for a minute
/// at most, and on the file system.
Usage read_accounts(const UsageRequest& request, const std::vector<std::string>& folders,
                    const std::vector<std::string>& secrets);

}  // namespace autolaunch::launcher
