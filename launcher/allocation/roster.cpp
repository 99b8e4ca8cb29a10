#include "allocation/roster.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace autolaunch::launcher {

std::vector<int> Roster::in_rank_order() const {
    if (!order.empty())
        return order;
    std::vector<int> taking_part;
    for (std::size_t node = 0; node < nodes.size(); ++node)
        if (nodes[node].ranks > 0)
            taking_part.push_back(static_cast<int>(node));
    return taking_part;
}

int Roster::first_rank(int node) const {
    int rank = 0;
    if (order.empty()) {
        for (int before = 0; before < node; ++before)
            rank += nodes[static_cast<std::size_t>(before)].ranks;
        return rank;
    }
    for (const int before : order) {
        if (before == node)
            break;
        rank += nodes[static_cast<std::size_t>(before)].ranks;
    }
    return rank;
}

int Roster::node_of(int rank) const {
    int end = 0;
    for (const int node : in_rank_order()) {
        end += nodes[static_cast<std::size_t>(node)].ranks;
        if (rank >= 0 && rank < end)
            return node;
    }
    return -1;
}

int Roster::world_size() const {
    int ranks = 0;
    for (const RosterNode& node : nodes)
        ranks += node.ranks;
    return ranks;
}

int Roster::taking_part_before(int node) const {
    if (!order.empty())
        return static_cast<int>(std::find(order.begin(), order.end(), node) - order.begin());
    return static_cast<int>(std::count_if(nodes.begin(), nodes.begin() + node,
                                          [](const RosterNode& one) { return one.ranks > 0; }));
}

std::vector<int> Roster::ranks_per_node() const {
    std::vector<int> ranks;
    for (const RosterNode& node : nodes)
        ranks.push_back(node.ranks);
    return ranks;
}

std::vector<int> Roster::ranks_where_taking_part() const {
    std::vector<int> ranks;
    for (const RosterNode& node : nodes)
        ranks.push_back(node.ranks + node.held_back);
    return ranks;
}

std::vector<std::string> Roster::spares() const {
    std::vector<std::string> names;
    for (const RosterNode& node : nodes)
        if (node.held_back > 0)
            names.push_back(node.name);
    return names;
}

void Roster::hold_back_all_but(int count) {
    for (std::size_t node = static_cast<std::size_t>(count); node < nodes.size(); ++node)
        nodes[node].held_back = std::exchange(nodes[node].ranks, 0);
}

Roster assume_alike(const Allocation& allocation, int ranks_here, const std::string& run_name) {
    Roster roster;
    roster.self = allocation.node_rank;
    roster.run_name = run_name;
    for (const std::string& name : allocation.node_names)
        roster.nodes.push_back({name, ranks_here});
    return roster;
}

}  // namespace autolaunch::launcher
