#pragma once
#include "topology/node_topology.hpp"

#include <string>

namespace autolaunch::launcher {

/// Another machine, from what was saved there. The content tells the form:
///   a folder      with sys/, and proc/ and dev/ where there are some: copied from the machine
///   <topology>    hwloc's XML, versions 1 and 2: lstopo --whole-system file.xml
///   <system>      NCCL's or RCCL's XML: NCCL_TOPO_DUMP_FILE
///   other text    `nvidia-smi topo -m`, with or without what surrounds it
/// Throws Error{invalid_argument} that names the file, the line where there is one, and what was
/// expected.
NodeTopology read_capture(const std::string& path);

}  // namespace autolaunch::launcher
