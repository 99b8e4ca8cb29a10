#pragma once
#include "topology/node_topology.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

enum class BindingMode { node, exclusive, socket, core_complex, none, list };

/// "node", "exclusive", "socket", "core-complex", "none"; nothing for other words. A list has no
/// word: it is given.
std::optional<BindingMode> binding_mode_from(std::string_view word);
std::string_view binding_mode_name(BindingMode mode);

/// Where one rank runs, and why.
struct RankBinding {
    int local_rank = 0;
    std::optional<int>
        gpu;  ///< position in the list of usable GPUs (the CUDA ordinal the rank will see)
    std::vector<int> cpus;          ///< empty: the inherited mask is left alone
    std::vector<int> memory_nodes;  ///< preferred NUMA nodes; empty: the default policy
    int physical_cores =
        1;  ///< its share of those in `cpus` (or in the inherited mask), at least 1; 0: unknown
    std::string reason;  ///< one sentence
};

struct BindingPlan {
    std::vector<RankBinding> ranks;  ///< by local rank
    std::vector<std::string> warnings;
    std::vector<std::string>
        notes;  ///< what is left over: GPUs without a rank, CPUs that stay idle, and why
};

/// Pure, and the same answer for the same input. No rank gets a CPU outside topology.allowed_cpus.
///  - node: all allowed CPUs near the rank's GPU; without GPUs, of the NUMA node that falls to it
///  - socket: all allowed CPUs of the sockets those are in
///  - core_complex: one L3 group of them, ranks of one locality spread over its groups
///  - exclusive: a part of their cores for itself alone (binding/exclusive.hpp); shared where cores
///    are too few
///  - list: what `list` says of each rank (binding/binding_list.hpp, which throws for impossible
///    ones)
///  - none: nothing is bound
///
/// Where that is all that is allowed, or a GPU's NUMA node is unknown, or no CPU is told (a saved
/// machine), `cpus` stays empty: the mask is left alone. `gpus` are the usable ones, as positions
/// in topology.gpus, in the order the ranks see them. Where each rank is started in a task with
/// CPUs of its own, those are its `inherited` mask, and it gets none beyond them.
BindingPlan bind_ranks(const NodeTopology& topology, const std::vector<int>& gpus, int rank_count,
                       BindingMode mode, const std::vector<std::vector<int>>& inherited = {},
                       const std::vector<std::string>& list = {});

}  // namespace autolaunch::launcher
