#pragma once
#include "topology/node_topology.hpp"

#include <string>

namespace autolaunch::launcher {

/// Another machine, from the file that `lstopo --whole-system file.xml` saved there (hwloc 1 or 2). What the file marks
/// as disallowed stays outside allowed_cpus. Ports of HCAs have no rate; notes say what else the file lacks. Throws
/// Error{invalid_argument} for a file that is broken, with the line, or that hwloc cannot read. Takes tens of
/// milliseconds, and a child process that tries the file first: for looking at a machine from elsewhere, not for
/// launching.
NodeTopology read_hwloc_topology(const std::string& xml_path);

}  // namespace autolaunch::launcher
