#pragma once
#include <autolaunch/export.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>

namespace autolaunch {

/// What a user names as a file may be a pipe that nobody writes to, or a device without end. Gives
/// one byte more than `bytes` at most: enough to see that there is more. A named pipe is given
/// `patience.writer` until somebody opens it; one that is open, and a terminal,
/// `patience.silence` between two pieces. SystemError{ENODATA} then.
struct ReadPatience {
    std::chrono::milliseconds writer{5'000};
    std::chrono::milliseconds silence{30'000};
};
AUTOLAUNCH_API std::string read_at_most(const std::filesystem::path& path, std::size_t bytes,
                                        ReadPatience patience = {});

}  // namespace autolaunch
