#pragma once
#include "topology/node_topology.hpp"

#include <string>

namespace autolaunch::launcher {

/// Another machine, from the file that `lstopo --whole-system file.xml` saved there (hwloc 1 or 2). What the file marks
/// as disallowed stays outside allowed_cpus. Ports of HCAs have no rate. Throws Error{invalid_argument} for a file that
/// hwloc cannot read. Takes tens of milliseconds: for looking at a machine from elsewhere, not for launching.
NodeTopology read_hwloc_topology(const std::string& xml_path);

}  // namespace autolaunch::launcher
