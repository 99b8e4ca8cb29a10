#pragma once
#include "base/locked_folder.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Files of mode 0600 in a folder of this user alone, in memory (tmpfs): secrets of ranks. Nothing
/// of them comes to a disk, but where the system swaps. The folder is called after the agent's
/// folder of sockets, so that whoever removes that one of a killed agent removes this one, too
/// (spawn/guardian.hpp, remains/abandoned_jobs.hpp).
///
/// Owner: JobSecrets. Threads: one.
class SecretFiles {
public:
    explicit SecretFiles(const std::filesystem::path& sockets) : sockets_(sockets) {}

    /// Writes it, in the place of what it was, and returns its path. Throws ExitError 71 where
    /// there is no memory to write it to.
    std::string write(const std::string& name, const std::string& bytes);

private:
    void make_folder();

    std::filesystem::path sockets_;
    std::optional<LockedFolder> folder_;
};

}  // namespace autolaunch::launcher
