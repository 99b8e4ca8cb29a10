#pragma once
#include <chrono>
#include <filesystem>
#include <string_view>

namespace autolaunch::launcher {

/// Removes this user's files in `folder` whose names start with `prefix`, that were made after
/// `since`, and that no live process has open or mapped: what was killed between making and
/// unlinking them. Where a live process of this user cannot be looked at, none is removed. Reads
/// /proc, if there are such files; blocks a few milliseconds.
void remove_abandoned_files(const std::filesystem::path& folder, std::string_view prefix,
                            std::chrono::system_clock::time_point since);

/// False in a container with processes of its own: others may use the same folder, unseen.
bool sees_all_processes();

}  // namespace autolaunch::launcher
