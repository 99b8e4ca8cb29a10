#pragma once
#include "allocation/allocation.hpp"

#include <string>

namespace autolaunch::launcher {

/// Takes this node out of Slurm's hands with `reason`, by scontrol, unless it is drained already:
/// an administrator's reason stays. Empty, or why it could not. Blocks: 10 s at most.
std::string drain_this_node(const std::string& reason, const EnvironmentMap& environment,
                            const std::string& hostname);

}  // namespace autolaunch::launcher
