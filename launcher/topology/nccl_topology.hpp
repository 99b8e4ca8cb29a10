#pragma once
#include "topology/node_topology.hpp"
#include "topology/xml.hpp"

#include <string>

namespace autolaunch::launcher {

/// A machine as NCCL or RCCL wrote it to NCCL_TOPO_DUMP_FILE, or as a cloud wrote it for
/// NCCL_TOPO_FILE. A <pci> inside a <pci> is below a switch; everything of a <cpu> is below one
/// host bridge, as NCCL counts it (but one a PCI domain on ARM and POWER). Unknown elements and
/// attributes are passed over. Private to this folder; read_capture calls it.
NodeTopology read_nccl_topology(const XmlElement& system, const std::string& file);

}  // namespace autolaunch::launcher
