#pragma once
// Which GPU a rank uses, told from its environment: asking CUDA would make it start. Pure.
#include <autolaunch/session.hpp>

#include <filesystem>

namespace autolaunch {

struct GpuPlace {
    /// Every rank of this node has a GPU of its own, as far as the environment tells.
    bool is_own = false;
    /// As CUDA numbers what the process may see.
    int index = 0;
};

/// `visible` is CUDA_VISIBLE_DEVICES, null when it is not set; `installed` the GPUs of this
/// machine, 0 if unknown. One visible GPU is the rank's own mask: number 0. Otherwise LOCAL_RANK i
/// takes the i-th that is visible.
GpuPlace place_on_gpu(const char* visible, int installed, const RankInfo& info);

/// The entries of the driver's folder, /proc/driver/nvidia/gpus.
int installed_gpus(const std::filesystem::path& folder);

}  // namespace autolaunch
