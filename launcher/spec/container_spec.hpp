#pragma once
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Section `container`: the image that ranks run in. Without an image they run in none.
struct ContainerSpec {
    std::string image;                 ///< as the runtime names it, or a file
    std::string runtime;               ///< apptainer, enroot, podman, pyxis; empty: as the node has
    std::vector<std::string> mounts;   ///< "SOURCE[:TARGET][:ro|rw]", each of them checked
    std::string digest;                ///< "sha256:…" that the image must have; empty: any
    std::vector<std::string> options;  ///< of the runtime's own, before the image
    std::string cuda_compat;           ///< the node's folder with it; empty: ranks do not get it
    Origin image_at;                   ///< where the image is named

    /// Ranks are started in it from outside; with pyxis the whole step is in it.
    bool wraps_ranks() const { return !image.empty() && runtime != "pyxis"; }
};

}  // namespace autolaunch::launcher
