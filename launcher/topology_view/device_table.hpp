#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

// What the drawings write about devices. Private to this folder.

std::string gpu_name(const Gpu& gpu);           ///< "GPU 3", "MIG 3" for a part of one
std::string short_bdf(const std::string& bdf);  ///< without the domain where that is 0
std::string describe_gpu(const Gpu& gpu);       ///< "NVIDIA H100 80GB HBM3 · 80 GiB"
std::string describe_hca(
    const Hca& hca);  ///< "InfiniBand 400 Gb/s", "Ethernet 100 Gb/s (eth2) · down"
std::string describe_size(std::uint64_t bytes);  ///< "503 GiB"; "size unknown" of 0

/// Who reaches whom how: all GPUs against all GPUs and HCAs, in the manner of `nvidia-smi topo -m`.
struct PathMatrix {
    std::vector<std::string> columns;             ///< GPUs first, then HCAs
    std::vector<std::vector<std::string>> cells;  ///< a row a GPU: "X", "NV18", "PIX", …
    std::size_t gpu_count = 0;
};
PathMatrix path_matrix(const NodeTopology& topology);

}  // namespace autolaunch::launcher
