#pragma once
#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>

namespace autolaunch {

struct ReadPatience {
    std::chrono::milliseconds writer{5'000};    ///< for a named pipe, until somebody opens it
    std::chrono::milliseconds silence{30'000};  ///< of an open pipe or a terminal, at a time
};

/// Reads what a user names as a file, which may be a pipe that nobody writes to, or a device
/// without end. Gives one byte more than `bytes` at most: enough to see that there is more. Throws
/// SystemError; ENODATA where patience ends.
AUTOLAUNCH_API std::string read_at_most(const std::filesystem::path& path, std::size_t bytes,
                                        ReadPatience patience = {});

/// Reads a file that nobody would make a pipe or a device: one that a scheduler or an administrator
/// wrote. Throws SystemError, and at once Error where it is none, or has more than `bytes`.
AUTOLAUNCH_API std::string read_regular_file(const std::filesystem::path& path, std::size_t bytes);

}  // namespace autolaunch
