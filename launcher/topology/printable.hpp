#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// `text` on one line and not long: control bytes become \xNN, so that a name from a file or from
/// a device's firmware can neither begin a line of its own nor speak to a terminal.
std::string printable(std::string_view text);

/// The same for every text of a machine.
void make_printable(NodeTopology& topology);

}  // namespace autolaunch::launcher
