#pragma once
#include "remains/abandoned_jobs.hpp"

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Another user who may have jobs on this node.
struct OtherUser {
    uid_t uid = 0;
    gid_t gid = 0;
    bool operator==(const OtherUser&) const = default;
};

/// Of a folder's name "autolaunch-1000-Ab3xYz" the 1000; nothing: it is none of ours. Pure.
std::optional<uid_t> user_in_name(std::string_view name);

/// Those who have folders of jobs in these places, and those who have one in /run/user. Looks at
/// names and owners alone: what is in the folders is not opened, so that nobody can lead root
/// elsewhere.
std::vector<OtherUser> find_other_users(const std::vector<std::string>& places);

/// The jobs that `sweep` finds when it runs in a process that is this user and nobody else: what he
/// has left in the way of his folders can lead to nothing that he could not do himself. By its
/// deadline; what it did not say by then is an Error. Throws SystemError and Error.
std::vector<AbandonedJob> sweep_as(const OtherUser& user,
                                   const std::function<std::vector<AbandonedJob>()>& sweep,
                                   std::chrono::milliseconds patience);

}  // namespace autolaunch::launcher
