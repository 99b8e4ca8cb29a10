#include "plan/roster.hpp"

#include <cstddef>

namespace autolaunch::launcher {

int Roster::first_rank(int node) const {
    int rank = 0;
    for (int before = 0; before < node; ++before) rank += nodes[static_cast<std::size_t>(before)].ranks;
    return rank;
}

Roster assume_alike(const Allocation& allocation, int nodes, int ranks_here, const std::string& run_name) {
    Roster roster;
    roster.self = allocation.node_rank;
    roster.run_name = run_name;
    for (int node = 0; node < nodes; ++node) {
        const bool known = static_cast<std::size_t>(node) < allocation.node_names.size();
        roster.nodes.push_back({known ? allocation.node_names[static_cast<std::size_t>(node)] : "", ranks_here});
    }
    return roster;
}

}  // namespace autolaunch::launcher
