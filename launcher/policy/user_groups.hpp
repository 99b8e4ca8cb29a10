#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Who starts the job, as the system's own databases name him (nsswitch: files, LDAP, sssd).
struct JobUser {
    uid_t uid = 0;
    std::string name;                 ///< "user 1001" where no database knows him
    std::vector<std::string> groups;  ///< the primary one first; a number where one has no name
    bool known = true;
    bool is_root() const { return uid == 0; }
};

/// The real user of this process, with getgrouplist(3): all his groups, not those that this process
/// happens to run with. Blocks as the databases do.
JobUser read_job_user();

bool group_exists(const std::string& name);
/// Of a name or a number; nothing: there is none.
std::optional<gid_t> group_number(const std::string& name);
/// Whether this process runs with the group, so that it may give files to it.
bool process_has_group(gid_t group);

/// Members of a group, sorted: those that it lists, and those whose primary group it is. Databases
/// that do not list all users (sssd's default) leave the latter out.
std::vector<std::string> group_members(const std::string& name);

}  // namespace autolaunch::launcher
