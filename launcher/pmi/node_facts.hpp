#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A network that MPI libraries drive themselves: InfiniBand, RoCE, Omni-Path, EFA (verbs devices)
/// or Slingshot. Reads `sysfs` ("/sys").
bool has_fabric(const std::filesystem::path& sysfs);

/// The user's own Open MPI parameter file, $HOME/.openmpi/mca-params.conf, names transports (pml,
/// btl or mtl).
bool user_names_transport(const std::vector<std::string>& environment);

}  // namespace autolaunch::launcher
