#pragma once
#include "topology/node_topology.hpp"
#include "topology/xml.hpp"

#include <string>

namespace autolaunch::launcher {

/// Another machine, from the file that `lstopo --whole-system file.xml` saved there (hwloc 1 or 2).
/// What the file marks as disallowed stays outside allowed_cpus. Ports of HCAs have no rate; notes
/// say what else the file lacks. The file should be known as XML of <topology> (read_capture()
/// looks): hwloc does not say where one is broken. Throws Error{invalid_argument} for a file that
/// hwloc cannot read. Takes milliseconds, and a child process that tries the file first: for
/// looking at a machine from elsewhere, not for launching.
NodeTopology read_hwloc_topology(const std::string& xml_path);

/// Refuses what hwloc would take too much memory or time for: CPUs up to 16384, 65536 objects, 512
/// GPUs, 1024 HCAs. `root`: the same file's <topology>.
void check_hwloc_bounds(const XmlElement& root, const std::string& file);

}  // namespace autolaunch::launcher
