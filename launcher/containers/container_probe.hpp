#pragma once
#include "plan/container_choice.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What an image said of itself, by key: "nccl" files of libnccl, "cuda" versions, "libcuda",
/// "compat", "plugin", "gpu" devices, "python". Empty: it did not start.
using ContainerSaid = std::map<std::string, std::vector<std::string>>;

struct ContainerProbe {
    ContainerSaid said;
    std::string trouble;  ///< what the runtime said where there is no answer
};

/// Starts a shell in the container, as a rank is started, which looks for files. Blocks: as long as
/// the runtime needs, 60 s at most.
ContainerProbe probe_container(const ContainerChoice& choice);

/// Lines "key value"; what begins with no known key is trouble. Pure.
ContainerProbe parse_probe(const std::string& text);

}  // namespace autolaunch::launcher
