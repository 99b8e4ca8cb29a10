#pragma once
#include "site/site_settings.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A role as Slurm has it: one QoS and one account of its name, in lower case as sacctmgr keeps it.
struct SlurmRole {
    std::string name;
    std::string place;  ///< of the role in the administrator's file
    std::optional<std::int64_t> gpus, memory_mib, minutes;
    std::string gpus_place, memory_place, minutes_place;
    std::vector<std::string> members;
};

using MembersOf = std::function<std::vector<std::string>(const std::string& group)>;

/// Limits are rounded down to what Slurm counts in: MiB and minutes. Throws Error where Slurm
/// cannot have such a role: a name with other characters than [a-z0-9._-], two that differ in case
/// alone, a time of less than a minute.
std::vector<SlurmRole> slurm_roles(const SiteSettings& settings, const MembersOf& members_of);

/// "gres/gpu=8,mem=488281": of MaxTRESPerUser. -1 is sacctmgr's word for no limit.
std::string max_tres_per_user(const SlurmRole& role);
/// MaxWall, in minutes.
std::string max_wall(const SlurmRole& role);

struct SlurmPolicyFiles {
    std::string commands;  ///< a shell script that calls sacctmgr; may be run again
    std::string conf;      ///< lines for slurm.conf
    std::string lua;       ///< job_submit.lua
};
/// Pure. `file` is named in each of them.
SlurmPolicyFiles render_slurm_policy(const std::vector<SlurmRole>& roles, const std::string& file,
                                     const std::string& contact);

}  // namespace autolaunch::launcher
