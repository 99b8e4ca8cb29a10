#pragma once
// Whether ranks on several nodes can be served by shared memory within the nodes and MPI between
// them. Pure.
#include <cstdint>
#include <span>
#include <string>

namespace autolaunch {

/// Where one rank is. Travels between ranks as bytes.
struct RankPlace {
    std::int32_t node = 0;
    std::int32_t local_rank = 0;
    std::int32_t local_size = 1;
};

struct NodePlan {
    int nodes = 0;
    int ranks_per_node = 0;
    std::string obstacle;  ///< why not; empty when it can be done

    bool possible() const noexcept { return obstacle.empty(); }
};

/// `places` by rank. All nodes must have the same number of ranks, and a node's ranks must follow
/// each other. With `fixed_order`, ranks per node must be a power of two: then pairs over the ranks
/// are pairs within nodes, then pairs of nodes.
NodePlan plan_nodes(std::span<const RankPlace> places, bool fixed_order);

}  // namespace autolaunch
