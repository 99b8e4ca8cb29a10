#pragma once
#include "topology/node_topology.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

enum class BindingMode { node, exclusive, socket, core_complex, none };

/// "node", "exclusive", "socket", "core-complex", "none"; nothing for other words.
std::optional<BindingMode> binding_mode_from(std::string_view word);

/// Where one rank runs, and why.
struct RankBinding {
    int local_rank = 0;
    std::optional<int> gpu;            ///< position in the list of usable GPUs (the CUDA ordinal the rank will see)
    std::vector<int> cpus;             ///< empty: the inherited mask is left alone
    std::vector<int> memory_nodes;     ///< preferred NUMA nodes; empty: the default policy
    int physical_cores = 1;            ///< in `cpus` (or in the inherited mask)
    std::string reason;                ///< one sentence
};

struct BindingPlan {
    std::vector<RankBinding> ranks;       ///< by local rank
    std::vector<std::string> warnings;
};

/// Pure. `gpus` are the usable ones, as positions in topology.gpus, in the order the ranks see them.
BindingPlan bind_ranks(const NodeTopology& topology, const std::vector<int>& gpus, int rank_count, BindingMode mode);

}  // namespace autolaunch::launcher
