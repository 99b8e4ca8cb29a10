#pragma once
#include "topology/node_topology.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Cuts `cores` into `parts` disjoint runs that cover them, whole cores each, ordered by L3. Whole
/// L3 groups are dealt (a remainder to the lowest parts), or whole ranks to each L3, as long as no
/// part gets more than one and a half times the cores of another; otherwise every part gets the
/// same number of cores, the remainder to the lowest parts. Needs 1 <= parts <= cores.size(). Pure.
std::vector<std::vector<Core>> split_cores(std::vector<Core> cores, int parts);

/// One contiguous choice of L3 groups for each of `parts` ranks, going round when there are fewer
/// groups. Pure.
std::vector<std::vector<Core>> choose_core_complexes(std::vector<Core> cores, int parts);

}  // namespace autolaunch::launcher
