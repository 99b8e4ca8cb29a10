#include "allocation/roster.hpp"

#include <cstddef>

namespace autolaunch::launcher {

int Roster::first_rank(int node) const {
    int rank = 0;
    for (int before = 0; before < node; ++before)
        rank += nodes[static_cast<std::size_t>(before)].ranks;
    return rank;
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
