#pragma once
#include "doctor/finding.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// An image from inside and its node from outside.
struct ContainerExamined {
    std::map<std::string, std::vector<std::string>> said;  ///< by the image (container_probe.hpp)
    std::string trouble;      ///< what the runtime said where it said nothing
    std::string driver = {};  ///< of NVIDIA on the node, "550.54.15"; empty: there is none
    std::string cuda_compat =
        {};  ///< where ranks find the node's compatibility library; or nowhere
    std::string node_compat = {};  ///< the folder that the node has of it; or none
    bool has_amd = false;          ///< GPUs of AMD on the node
    bool has_hcas = false;
    std::string runtime = {};  ///< that has started it
};

/// `doctor --container`: driver against CUDA, libnccl, plugin, what is passed on. What cannot be
/// known is among what is not checked. Pure.
NodeReport judge_container(const std::string& node, const ContainerExamined& examined);

/// The oldest driver of NVIDIA for that CUDA, "525.60.13"; empty: not known. Pure.
std::string oldest_driver_for(const std::string& cuda);

}  // namespace autolaunch::launcher
