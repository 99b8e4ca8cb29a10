#pragma once
#include "allocation/allocation.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What this node has for containers.
struct ContainerFacts {
    std::map<std::string, std::string> programs;  ///< runtimes, and crun, by name: their files
    bool is_root = false;
    std::string open_files = {}, processes = {};  ///< limits, "soft:hard"
    std::vector<std::string> nvidia_nodes = {};   ///< /dev/nvidia0 and so on
    std::vector<std::string> amd_nodes = {};      ///< /dev/kfd, /dev/dri
    std::string cdi_file = {};                    ///< that describes NVIDIA's devices; or none
    std::string infiniband = {};                  ///< /dev/infiniband; or none
    std::vector<std::string> nccl_files = {};     ///< nccl.conf, and what NCCL's variables name
    std::string temporary = {};                   ///< the folder that TMPDIR names; or none
    std::string python_folder = {};               ///< of `import autolaunch`; or none
    bool image_is_file = false;
};

/// `image`: as the spec names it. `environment`: of the ranks. Looks at the disk, starts nothing.
ContainerFacts read_container_facts(const std::string& image, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
