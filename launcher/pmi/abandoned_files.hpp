#pragma once
#include <chrono>
#include <filesystem>
#include <string_view>

namespace autolaunch::launcher {

/// Removes this user's files in `folder` whose names start with `prefix`, that were made after
/// `since`, and that no live process has open or mapped: what was killed between making and
/// unlinking them. Reads /proc; blocks a few milliseconds.
void remove_abandoned_files(const std::filesystem::path& folder, std::string_view prefix,
                            std::chrono::system_clock::time_point since);

}  // namespace autolaunch::launcher
