#pragma once
#include "allocation/allocation.hpp"

#include <string>

namespace autolaunch::launcher {

struct CleanRequest {
    std::string run_id = {};  ///< of this job alone; empty: all
    bool look_only = false;
    bool drain = false;
    bool json = false;
};

/// `autolaunch clean`: ends and removes what jobs that were killed have left on this node, those of
/// this user, by root those of everybody, and says so on stdout. The exit code. Blocks some seconds
/// at most, and for scontrol.
int clean_node(const CleanRequest& request, const EnvironmentMap& environment);

/// The same at the start of another job, beside it: silent where nothing but folders was left.
void clean_before_start() noexcept;

}  // namespace autolaunch::launcher
