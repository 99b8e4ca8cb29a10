#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A machine from the table of `nvidia-smi topo -m`, whatever text is around it: columns parted by
/// tabs or, as pasted, by blanks. GPUs have no PCI address: paths are told for "GPU0" and a NIC's
/// name. Private to this folder; read_capture calls it.
NodeTopology read_smi_topology(std::string_view text, const std::string& file);

}  // namespace autolaunch::launcher
