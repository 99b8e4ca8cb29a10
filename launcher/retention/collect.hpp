#pragma once
#include "retention/left_checkpoints.hpp"
#include "retention/left_run.hpp"
#include "stage_cache/shared_place.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct CollectRequest {
    std::string scratch;  ///< of staged data, on this node
    std::chrono::seconds older_than{0};
    RunsThatGo which = RunsThatGo::any;
    std::vector<std::string> runs = {};  ///< run directories, or folders that have such
    std::vector<CheckpointPlace> checkpoints = {};
    std::vector<std::string> named = {};  ///< checkpoints that stay: the spec's restore_from
    bool apply = false;
    bool json = false;
    std::optional<SharedPlace> shared = {};  ///< the site's cache, in place of what is this user's
};

struct Collected {
    std::string text;   ///< the lines or the JSON, for stdout
    int exit_code = 0;  ///< else of the first that could not be removed, or looked at
};

/// `autolaunch gc`: what of this user's staged data, run directories and checkpoints goes; with
/// `apply` it goes. Throws ExitError 73 where the folder of
/// staged data cannot be used, SystemError where a folder that was named cannot. Blocks: while
/// files are removed.
Collected collect(const CollectRequest& request, const AskSlurm& ask);

/// `autolaunch gc --epilog`: this process, root's in Slurm's Epilog, becomes the job's user and
/// nobody else, for good. Throws UsageError elsewhere, SystemError where that fails.
void become_user_of_job(const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
