#pragma once
#include "allocation/allocation.hpp"
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One environment variable and why it has its value.
struct VariableChoice {
    std::string name;
    std::string value;
    std::string reason;
};

struct NcclEnvironment {
    std::vector<VariableChoice> set;    ///< we set these
    std::vector<VariableChoice> kept;   ///< found in the environment or a configuration file, and left as they are
    std::vector<std::string> warnings;  ///< known foot-guns among what was found
};

/// Pure. `found` is the environment with the user's settings (spec over process environment over nccl.conf).
NcclEnvironment decide_nccl_environment(const NodeTopology& topology, const Allocation& allocation,
                                        const EnvironmentMap& found);

}  // namespace autolaunch::launcher
