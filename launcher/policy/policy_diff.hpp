#pragma once
#include "base/deadline.hpp"
#include "policy/slurm_policy.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A QoS of the live cluster, as `sacctmgr -P show qos` says it.
struct LiveQos {
    std::map<std::string, std::int64_t> most;  ///< MaxTRESPU: "gres/gpu", "mem" (MiB)
    std::optional<std::int64_t> minutes;       ///< MaxWall
    std::set<std::string> flags;
};
struct LiveAssociation {
    std::string account, user;  ///< user empty: the account's own
    std::set<std::string> qos;
};
struct LiveSlurm {
    std::map<std::string, LiveQos> qos;
    std::vector<LiveAssociation> associations;
    std::map<std::string, std::string> config;  ///< scontrol show config
};

/// One thing that the cluster has otherwise than the file.
struct PolicyDifference {
    std::string what;     ///< "max_gpus of ml_engineers"
    std::string file;     ///< "8 (site.yaml:12)"
    std::string cluster;  ///< "16 (QoS ml_engineers, MaxTRESPU)"
    std::string fix;      ///< the command that makes the cluster as the file
};

/// Limit by limit. Empty: the cluster has what the file says. Pure.
std::vector<PolicyDifference> compare_policy(const std::vector<SlurmRole>& roles,
                                             const LiveSlurm& live);

// Of sacctmgr with -P, whose first line names the columns. Pure.
std::map<std::string, LiveQos> parse_qos(std::string_view answer);
std::vector<LiveAssociation> parse_associations(std::string_view answer);

/// Asks slurmdbd and slurmctld. Throws ExitError (69) where one does not answer: what cannot be
/// read is not equal. Blocks until the deadline at most.
LiveSlurm read_live_slurm(const std::vector<SlurmRole>& roles, const Deadline& deadline);

}  // namespace autolaunch::launcher
