#pragma once
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch {

/// open(2) with O_CLOEXEC; throws SystemError naming the path.
AUTOLAUNCH_API UniqueFd open_file(const std::filesystem::path& path, int flags, mode_t mode = 0644);
/// For descriptors of libraries that do not set FD_CLOEXEC themselves.
AUTOLAUNCH_API void close_on_exec(int fd) noexcept;
/// All of it, whatever write(2) does in between. `what` names the target in the error.
AUTOLAUNCH_API void write_all(int fd, std::string_view bytes, std::string_view what);
AUTOLAUNCH_API std::string read_file(const std::filesystem::path& path);
/// fsync(2) of a directory, so that renames in it survive a crash.
AUTOLAUNCH_API void sync_directory(const std::filesystem::path& path);

}  // namespace autolaunch
