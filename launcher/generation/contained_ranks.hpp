#pragma once
#include "plan/launch_plan.hpp"
#include "spawn/spawn.hpp"

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One start of a rank.
struct RankPlace {
    std::filesystem::path sockets;  ///< the agent's folder of them
    int generation = 0, rank = 0;
};

/// The same child in the plan's container: it sees the agent's sockets and its own secrets besides
/// what the plan says. Pure.
ChildSpec in_container(const LaunchPlan& plan, const RankPlace& place, ChildSpec child,
                       bool has_input);
/// That podman writes the rank's pid to. Pure.
std::string pid_file_of(const RankPlace& place);

/// Processes of the runtime itself that are our children now: conmon, which is about to end, and
/// the one that holds a user's namespaces, which podman leaves on purpose.
std::vector<pid_t> container_helpers(const ContainerChoice& container);
/// What podman has of ended containers is removed by conmon, which should not be killed meanwhile.
/// Blocks until it is gone: some 0.2 s, 3 s at most.
void await_container_ends(const ContainerChoice& container);

}  // namespace autolaunch::launcher
