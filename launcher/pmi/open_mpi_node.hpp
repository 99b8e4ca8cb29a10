#pragma once
#include "pmi/mpi_environment.hpp"
#include "pmi/mpi_service.hpp"

#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// What this node is to Open MPI, but for `shared_memory`. Looks at /sys and at the user's own
/// parameter file; some microseconds.
OpenMpiNode look_for_open_mpi(const MpiJob& job);

/// The folder for Open MPI's segments, where the service's own folder is, or will be, `directory`:
/// in it, where that is in memory; else another one, which somebody has to make; empty: there is no
/// place for it.
struct SegmentFolder {
    std::filesystem::path path;
    bool is_own = false;  ///< not within `directory`
};
SegmentFolder find_segment_folder(const std::filesystem::path& directory);

}  // namespace autolaunch::launcher
