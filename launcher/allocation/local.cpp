#include "allocation/adapters.hpp"

namespace autolaunch::launcher {

Allocation read_local_allocation(const EnvironmentMap& environment, const std::string& hostname) {
    Allocation allocation;
    allocation.node_names = {hostname};
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
