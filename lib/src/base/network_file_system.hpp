#pragma once
#include <autolaunch/export.hpp>

#include <filesystem>

namespace autolaunch {

/// Whether what is in this folder is read over a network, or as slowly: NFS, FUSE, Lustre, GPFS,
/// BeeGFS, Ceph, SMB (both), 9P, AFS, PanFS, OrangeFS. False where it cannot be looked at.
AUTOLAUNCH_API bool is_network_file_system(const std::filesystem::path& folder) noexcept;

/// A call failed because what the file system is on does not answer: a server or a FUSE program
/// that is gone, a handle that it does not know any more. Trying again helps once it is back.
AUTOLAUNCH_API bool is_lost_server(int error) noexcept;

}  // namespace autolaunch
