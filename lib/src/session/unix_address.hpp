#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <filesystem>
#include <string>

namespace autolaunch {

/// A path that bind(2) and connect(2) take for a Unix socket, whose addresses end after 107 bytes:
/// longer ones go through /proc/self/fd and an open directory. Owner: who binds or connects, until
/// that is done. Blocks: never.
class AUTOLAUNCH_API UnixAddress {
public:
    /// Throws SystemError when the directory of a long path cannot be opened.
    explicit UnixAddress(const std::filesystem::path& path);
    const std::string& path() const { return path_; }

private:
    UniqueFd directory_;
    std::string path_;
};

/// Connected to the Unix stream socket at `path`, without blocking from then on; empty where nobody
/// listens, or its queue of new connections stays full. Blocks: until the deadline at most. Throws
/// SystemError as UnixAddress.
AUTOLAUNCH_API UniqueFd connect_to_unix(const std::filesystem::path& path, Deadline deadline);

}  // namespace autolaunch
