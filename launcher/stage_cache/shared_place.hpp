#pragma once
#include "base/unique_fd.hpp"

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// A folder on this node's own disk with data for the jobs of all users, and whose it is: both the
/// administrator's word, for what is believed there is what that user has put there.
struct SharedPlace {
    std::filesystem::path folder;
    uid_t owner = 0;
};

/// That of the site's words. Throws ExitError 69 where this node does not know who the owner is.
/// Blocks: while the user database does, 10 s at most.
SharedPlace shared_place(const std::filesystem::path& folder, const std::string& owner);

/// Why something there may be another one's than the owner's. Empty: only he can have written it.
/// Pure.
std::string why_not_believed(const struct stat& facts, uid_t owner);

/// Refuses a way to it, without links, on which others could exchange something: who may rename
/// what is in a folder can put another one in its place. A sticky one, as /tmp, lets that nobody do
/// but the owner of what is there. Throws Error.
void check_way(const std::filesystem::path& way, uid_t owner);
/// Where it is, without links above it; nothing where what it is to be in is not there. Throws
/// Error, also where it is no absolute path.
std::optional<std::filesystem::path> shared_path(const SharedPlace& place);

/// That folder, opened by way of folders that nobody else can exchange.
struct SharedFolder {
    UniqueFd fd;                 ///< for openat(2) alone
    std::filesystem::path path;  ///< without links
};
/// Nothing where it is not there. Throws Error, which says what about it is not to be believed.
std::optional<SharedFolder> open_shared(const SharedPlace& place);

}  // namespace autolaunch::launcher
