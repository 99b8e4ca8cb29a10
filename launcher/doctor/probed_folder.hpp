#pragma once
#include "base/unique_fd.hpp"

#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// The folder, or the nearest above it that is there, for a trainer makes its own; held, so that
/// nobody exchanges it between two looks.
struct ProbedFolder {
    UniqueFd fd;  ///< O_PATH; invalid: it could not be reached
    std::filesystem::path path;
    std::string wrong = {};  ///< why not, for people
    std::string fix = {};    ///< empty: the check's own
};

/// Root goes by its own links alone: a user's, in a folder that root was told to look at, would
/// lead to where he may not write. Everybody else is led by any, as his job would be.
///
/// Waits for no FIFO and no device: what is no folder is not opened. May wait for a file system.
ProbedFolder hold_nearest_folder(const std::string& path);

/// What keeps a file from being written there; empty: nothing. The file has a name that nobody can
/// take before us, and is gone when this returns.
std::string write_probe(const ProbedFolder& folder, const std::string& hostname);

}  // namespace autolaunch::launcher
