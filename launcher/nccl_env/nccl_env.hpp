#pragma once
#include "allocation/allocation.hpp"
#include "nccl_env/variable_choice.hpp"
#include "topology/node_topology.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A named set of variables for one kind of cluster (configs/profiles). Data, read by profile.hpp.
struct NcclProfile {
    std::string name;
    std::vector<VariableChoice> set;  ///< value and why
    std::vector<VariableChoice>
        leave;  ///< somebody else sets these (a plugin, a site script); value empty
    std::vector<std::string>
        required_text;  ///< for jobs of several nodes in which none of `leave` is set
};

/// What nccl.conf files say, which NCCL itself would take for what the environment lacks.
struct NcclConf {
    std::vector<VariableChoice> settings;  ///< source is "file:line"
    std::vector<std::string> warnings;
};

struct NcclInputs {
    const NodeTopology& topology;
    const EnvironmentMap& found;  ///< the user's settings: spec over process environment
    NcclConf conf = {};
    std::optional<NcclProfile> profile = {};
    int node_count = 1;
    /// The interface that reaches the other nodes, as the control connection uses it; empty: one
    /// node, or not known yet.
    std::string rendezvous_interface = {};
    std::vector<std::string> warnings = {};  ///< of what was read at the edge
    bool rendezvous_is_ipv6_only = false;
    bool has_gpus = true;  ///< usable ones
    bool manage = true;    ///< false: nothing is set, only what was found is looked at
};

struct NcclEnvironment {
    std::vector<VariableChoice> set;  ///< we set these
    std::vector<VariableChoice>
        kept;  ///< found in the environment or a configuration file, and left as they are
    std::vector<VariableChoice> left;   ///< often set, and better not: NCCL's default is the value
    std::vector<std::string> warnings;  ///< known foot-guns among what was found
    std::vector<std::string>
        compute_hcas;     ///< by name, as HCAs of the machine; the same for all its ranks
    std::string profile;  ///< the name of the one in use; empty: none
    std::vector<VariableChoice>
        excluded_hcas;  ///< name is the HCA's, reason why it is not for computing
    /// What a start on several nodes will set, whose value is known once they have met: name, what
    /// is known of the value, and by which rule.
    std::vector<VariableChoice> at_start;
};

/// Pure. The rules and their reasons are in docs/nccl.md.
NcclEnvironment decide_nccl_environment(const NcclInputs& inputs);

}  // namespace autolaunch::launcher
