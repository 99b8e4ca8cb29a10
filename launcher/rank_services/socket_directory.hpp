#pragma once
#include "base/unique_fd.hpp"

#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// A folder for the agent's Unix sockets that only its user may enter, in XDG_RUNTIME_DIR, /dev/shm
/// or /tmp: in memory where possible, and not in the run directory, which may be on a network file
/// system and have a long name (a socket's path is limited to 107 bytes). Removed with all it holds
/// by the destructor. A scheduler that kills every process of a job leaves it to the next
/// autolaunch of this user on the machine: the folder is locked while its owner lives.
class SocketDirectory {
public:
    /// Throws SystemError.
    SocketDirectory();
    SocketDirectory(const SocketDirectory&) = delete;
    SocketDirectory& operator=(const SocketDirectory&) = delete;
    ~SocketDirectory();

    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
    UniqueFd lock_;  ///< shared with the keeper, which is forked after this
};

}  // namespace autolaunch::launcher
