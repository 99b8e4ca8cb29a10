#pragma once
#include "base/user_database.hpp"

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Who starts the job, as the system's own databases name him (nsswitch: files, LDAP, sssd).
struct JobUser {
    uid_t uid = 0;
    std::string name;                 ///< "user 1001" where no database knows him
    std::vector<std::string> groups;  ///< the primary one first; a number where one has no name
    bool known = true;
    bool answered = true;  ///< false: a database that was asked for the user did not answer
    bool is_root() const { return uid == 0; }
};

/// The real user of this process, with getgrouplist(3): all his groups, not those that this process
/// happens to run with. Blocks as the databases do.
JobUser read_job_user();

/// What the databases say of a group. getgrouplist(3) leaves out the groups of a directory that
/// does not answer, and says nothing: this can tell.
struct GroupLookup {
    DatabaseAnswer answer = DatabaseAnswer::none;
    gid_t number = 0;  ///< where it exists
};
/// Takes 10 s at most; longer is no answer.
GroupLookup look_up_group(const std::string& name);
/// The same, of a number too: one that is no group's name exists.
GroupLookup group_number(const std::string& name);

/// A user, and of each group whether it exists.
struct UserAndGroups {
    JobUser user;
    std::map<std::string, DatabaseAnswer> groups;
};
/// Blocks as the databases do, which have deadlines of minutes, or none: see ask_in_time().
UserAndGroups read_user_and_groups(const std::vector<std::string>& groups);

/// Whether this process runs with the group, so that it may give files to it.
bool process_has_group(gid_t group);

/// Members of a group, sorted: those that it lists, and those whose primary group it is. Databases
/// that do not list all users (sssd's default) leave the latter out.
std::vector<std::string> group_members(const std::string& name);

}  // namespace autolaunch::launcher
