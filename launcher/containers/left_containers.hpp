#pragma once
#include <filesystem>

namespace autolaunch::launcher {

/// Removes what podman has of an agent's containers, after the agent was killed and all processes
/// were ended: something of the job would be in `podman ps -a` else. `sockets`: the agent's folder
/// of them, which its containers are called after. Blocks: as podman does, 5 s at most.
void remove_left_containers(const std::filesystem::path& sockets) noexcept;

}  // namespace autolaunch::launcher
