#pragma once
#include "base/locked_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A folder for the agent's Unix sockets that only its user may enter: in memory where possible,
/// and not in the run directory, which may be on a network file system and have a long name (a
/// socket's path is limited to 107 bytes). Removed with all it holds by the destructor.
///
/// It is in XDG_RUNTIME_DIR, /dev/shm or /tmp, the first that will do. Where XDG_RUNTIME_DIR is
/// logind's (/run/user/UID), it goes when the user logs out, while a job under nohup goes on, and
/// what he has in /dev/shm may go with it (RemoveIPC=yes): then the order is /tmp, /dev/shm,
/// XDG_RUNTIME_DIR. A folder that was removed all the same is made again by restore().
///
/// Locked while its owner, or the keeper or guardian that were forked after it was made, lives.
///
/// Owner: run_job(). Threads: the agent's one.
class SocketDirectory {
public:
    /// Throws SystemError.
    SocketDirectory();

    const std::filesystem::path& path() const { return folder_.path(); }
    /// A descriptor that keeps the folder locked.
    int lock() const { return folder_.lock(); }
    /// Makes the folder again if somebody has removed it, where it can be: path() is another then,
    /// perhaps. True when it did. Throws SystemError.
    bool restore();

    /// Where such folders are made, and how their names begin: of dead jobs they are found there
    /// (remains/abandoned_jobs.hpp).
    static std::vector<std::string> places();
    static std::string name_prefix();

private:
    LockedFolder folder_;
};

}  // namespace autolaunch::launcher
