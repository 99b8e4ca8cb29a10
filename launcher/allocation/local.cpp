#include "allocation/adapters.hpp"

namespace autolaunch::launcher {

Allocation read_local_allocation(const EnvironmentMap& environment, const std::string& hostname,
                                 const NodeOptions& options) {
    Allocation allocation;
    allocation.node_names = nameless_nodes(options.nodes);
    allocation.node_names[0] = hostname;
    allocation.on_every_node = options.nodes == 1;
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
