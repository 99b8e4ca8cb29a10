#pragma once
#include <cstddef>
#include <string>

namespace autolaunch::launcher {

// What the parts of StageCache have in common.

inline constexpr const char* kManifest = "manifest";
inline constexpr std::size_t kManifestHead = 128, kMostSource = std::size_t{1} << 16;

/// A file of a tree's or a part's own folder. Throws Error{corrupt}.
std::string read_text(int folder, const char* name, std::size_t most);

/// Throws ExitError 73.
[[noreturn]] void cannot_keep(const std::string& what, std::string hint);

}  // namespace autolaunch::launcher
