#pragma once
#include <autolaunch/export.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace autolaunch {

/// A write failed because what it was to go to cannot take more: a full disk, a quota, the limit of
/// a file's size (ulimit -f). Trying again helps once somebody has made room.
AUTOLAUNCH_API bool is_want_of_room(int error) noexcept;

/// Why nothing can be written in this folder now, as "No space left on device"; empty when it can.
/// Finds out by a small file, which is gone at once: a quota shows in no statvfs(2).
AUTOLAUNCH_API std::string why_no_room(const std::filesystem::path& folder);

/// A program's words for a full disk, in C's, Python's, Java's and Rust's messages alike. Pure.
AUTOLAUNCH_API bool tells_want_of_room(std::string_view text);

}  // namespace autolaunch
