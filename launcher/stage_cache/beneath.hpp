#pragma once
#include "base/unique_fd.hpp"
#include "stage_cache/tree.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// For openat(2) of a folder, to list it or to lock it; no link.
inline constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// openat(2) of a path below a folder, in which no name is a symbolic link. None where it cannot be
/// opened; errno says why, ELOOP or EXDEV where a name is a link.
UniqueFd open_beneath(int folder, const std::string& path, int flags, unsigned mode = 0);

/// Removes a folder that is in `parent`, with all it holds; links are not followed, and folders
/// that let nobody write are no obstacle. It need not be there. Throws SystemError.
void remove_beneath(int parent, const std::string& name);

/// The same of all that is in a folder, which stays.
void empty_beneath(int folder, const std::string& shown);

inline std::int64_t nanoseconds_of(const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}
inline timespec timespec_of(std::int64_t ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t below = (ns % kSecond + kSecond) % kSecond;
    return {.tv_sec = (ns - below) / kSecond, .tv_nsec = below};
}

}  // namespace autolaunch::launcher
