#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The nodes in an order that keeps those under the same switches together, so that ranks which
/// follow one another cross as few switches as they can. `addresses` are Slurm's topology
/// addresses, outermost switch first and the node last ("s0.s3.node7"), the head's first; the
/// result holds indices into them. Groups and nodes stand in the order of their first member, so
/// the head stays first, its groups lead at every level, and what is in order stays as it is. A
/// node without an address is a group of its own. Pure.
std::vector<int> order_nodes(const std::vector<std::string>& addresses);

}  // namespace autolaunch::launcher
