#pragma once
// Saved topologies of real machines, which the repository does not carry: AUTOLAUNCH_TOPOLOGIES_DIR
// names their folder, else ../shared/topologies beside the sources.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace autolaunch::launcher::testing {

/// The folder, or nothing after printing that the cases on captures are skipped.
inline std::optional<std::filesystem::path> captures_folder(const char* test) {
    const char* named = std::getenv("AUTOLAUNCH_TOPOLOGIES_DIR");
    for (std::filesystem::path base = AUTOLAUNCH_SOURCE_DIR; !named && base.has_relative_path();
         base = base.parent_path())
        if (std::filesystem::exists(base / "shared/topologies/facts.json"))
            return base / "shared/topologies";
    if (named && std::filesystem::exists(std::filesystem::path(named) / "facts.json"))
        return named;
    std::printf("skipped: %s: no saved topologies; set AUTOLAUNCH_TOPOLOGIES_DIR\n", test);
    return std::nullopt;
}

}  // namespace autolaunch::launcher::testing
