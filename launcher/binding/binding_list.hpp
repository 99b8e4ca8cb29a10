#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The CPUs of each local rank where resource_management.binding is a list, an entry a local rank.
/// An entry is
///   0-7,64-71   CPUs, by the kernel's numbers
///   numa:1      the allowed CPUs of NUMA nodes, by the kernel's numbers
///   core:0-3    cores that may be used, counted from 0 in the order of their first CPUs
/// Entries beyond the ranks are not read: the same list serves nodes with fewer of them. `masks` is
/// what each rank may use. Pure. Throws Error{invalid_argument} that names key, entry and fix: too
/// few entries, an entry that cannot be read, CPUs, nodes or cores that may not be used.
std::vector<std::vector<int>> resolve_binding_list(const NodeTopology& topology,
                                                   const std::vector<std::string>& list,
                                                   const std::vector<std::vector<int>>& masks);

}  // namespace autolaunch::launcher
