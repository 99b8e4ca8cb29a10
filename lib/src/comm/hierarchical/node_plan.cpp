#include "comm/hierarchical/node_plan.hpp"

#include <fmt/format.h>

#include <bit>

namespace autolaunch {

NodePlan plan_nodes(std::span<const RankPlace> places, bool fixed_order) {
    NodePlan plan;
    if (places.empty())
        return plan;
    const int each = places[0].local_size;
    const int ranks = static_cast<int>(places.size());
    plan.ranks_per_node = each;
    for (int rank = 0; rank < ranks; ++rank) {
        const RankPlace& place = places[static_cast<std::size_t>(rank)];
        if (place.local_size != each) {
            plan.obstacle = fmt::format("the nodes of ranks 0 and {} have {} and {} ranks", rank,
                                        each, place.local_size);
            return plan;
        }
        const RankPlace& first = places[static_cast<std::size_t>(rank - rank % each)];
        const bool starts_node = rank % each == 0;
        const bool new_node =
            rank == 0 || place.node != places[static_cast<std::size_t>(rank - 1)].node;
        if (place.local_rank != rank % each || place.node != first.node ||
            starts_node != new_node) {
            plan.obstacle = fmt::format(
                "ranks do not follow each other on their nodes: rank {} is local rank {} of node "
                "{}",
                rank, place.local_rank, place.node);
            return plan;
        }
    }
    if (ranks % each != 0) {
        plan.obstacle = fmt::format("the last of {} ranks' node is not full", ranks);
        return plan;
    }
    plan.nodes = ranks / each;
    if (fixed_order && !std::has_single_bit(static_cast<unsigned>(each)))
        plan.obstacle =
            fmt::format("fixed_order needs a power of two ranks on a node, not {}", each);
    return plan;
}

}  // namespace autolaunch
