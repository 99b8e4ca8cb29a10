#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The last `lines` lines of a file, oldest first, reading no more than its last `bytes` bytes (a
/// first line that this cuts is left out when there is another). Of a line with carriage returns,
/// what stood last. Empty lines at the end are left out. Empty when the file cannot be read.
std::vector<std::string> file_tail(const std::filesystem::path& path, std::size_t lines,
                                   std::size_t bytes = 64 * 1024);

}  // namespace autolaunch::launcher
