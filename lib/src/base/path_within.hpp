#pragma once
#include <autolaunch/export.hpp>

#include <filesystem>
#include <string_view>

namespace autolaunch {

/// A path below some folder, by its names alone: not from the root, and no name in it is empty, "."
/// or ".."; without NUL. Pure.
AUTOLAUNCH_API bool is_path_within(std::string_view path);

/// `inner` is `outer`, or below it, by their names alone; `outer` may end with a slash. Pure.
AUTOLAUNCH_API bool lies_within(const std::filesystem::path& inner,
                                const std::filesystem::path& outer);

}  // namespace autolaunch
