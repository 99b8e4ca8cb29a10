#pragma once
#include <cstddef>
#include <string>

namespace autolaunch::launcher {

// What the parts of StageCache have in common.

inline constexpr const char* kManifest = "manifest";
inline constexpr const char* kMarks = "marks";
inline constexpr std::size_t kManifestHead = 128, kMostSource = std::size_t{1} << 16,
                             kMostText = std::size_t{1} << 32;

/// A file of a tree's or a part's own folder. Throws Error{corrupt}. `flags` of open(2), besides.
std::string read_text(int folder, const char* name, std::size_t most, int flags = 0);

/// Throws ExitError 73.
[[noreturn]] void cannot_keep(const std::string& what, std::string hint);

}  // namespace autolaunch::launcher
