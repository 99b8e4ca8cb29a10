#pragma once
#include "allocation/allocation.hpp"
#include "spec/container_spec.hpp"

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
    std::string nvidia_driver = {};  ///< "550.54.15"; empty: there is none
    std::string cuda_compat = {};    ///< the version of the library in the folder that was named
    std::string newest_compat = {};  ///< a folder of it that this node has; or none
};

/// `spec`: what it names is looked for. `environment`: of the ranks. Looks at the disk, starts
/// nothing.
ContainerFacts read_container_facts(const ContainerSpec& spec, const EnvironmentMap& environment);

/// The driver in what /proc/driver/nvidia/version says; empty: it says none. Pure.
std::string nvidia_driver_in(const std::string& text);

/// The library's version in the name of its file, "libcuda.so.560.35.05"; empty: it is no such
/// name. Pure.
std::string compat_version_in(const std::string& file);

}  // namespace autolaunch::launcher
