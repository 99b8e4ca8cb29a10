#pragma once
#include "allocation/allocation.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct SweepRequest {
    enum class Action { status, resubmit };
    Action action = Action::status;
    std::string sweep;          ///< the folder of its submission, or its array's number
    std::vector<int> elements;  ///< to submit again; empty: those that failed
    bool json = false, dry_run = false;
    EnvironmentMap environment = {};
    std::function<void(const std::string& line)> say = {};    ///< to stderr
    std::function<void(const std::string& text)> print = {};  ///< to stdout
};

/// `autolaunch sweep status` and `resubmit`: how the elements of a sweep stand, by their own
/// records and by Slurm where it answers; and those that failed as another array of the same
/// script. The exit code; throws ExitError (64, 65, 66, 69), SystemError. Blocks 100 s at most, and
/// as the file system.
int run_sweep_command(const SweepRequest& request);

}  // namespace autolaunch::launcher
