#pragma once
#include "allocation/allocation.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

struct RosterNode {
    std::string name;   ///< as the scheduler calls it
    int ranks = 1;      ///< started there; 0: it takes no part in this generation, as when lost
    int held_back = 0;  ///< ranks of a spare, which it starts once it takes part
};

/// Who takes part, in the order of node ranks: what the rendezvous agreed on and `make_plan` counts
/// ranks by. Equal on all nodes but for `self`.
struct Roster {
    std::vector<RosterNode> nodes;
    int self = 0;  ///< this node's rank; 0 is the head
    std::string
        run_name;  ///< of the run directory, where neither the spec nor the scheduler names it

    /// Nodes that take part, in the order of their ranks; empty: by node rank.
    std::vector<int> order = {};

    /// The same, never empty where any takes part.
    std::vector<int> in_rank_order() const;
    /// Its first rank, were it to take part.
    int first_rank(int node) const;
    /// The node of that rank; -1: none.
    int node_of(int rank) const;
    /// Of the nodes before `node`, in the order of their ranks: those that take part.
    int taking_part_before(int node) const;
    int taking_part() const { return taking_part_before(static_cast<int>(nodes.size())); }
    std::vector<int> ranks_per_node() const;
    /// The same, of spares too.
    std::vector<int> ranks_where_taking_part() const;
    std::vector<std::string> spares() const;
    /// The first so many nodes take part in the first generation; the others are spares.
    void hold_back_all_but(int count);
    int world_size() const;
};

/// What the roster will be if all nodes are like this one: for `autolaunch plan`, which joins
/// nobody. Pure.
Roster assume_alike(const Allocation& allocation, int ranks_here, const std::string& run_name);

}  // namespace autolaunch::launcher
