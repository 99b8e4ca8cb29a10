#include "allocation/adapters.hpp"

namespace autolaunch::launcher {

Allocation read_local_allocation(const EnvironmentMap& environment, const std::string& hostname) {
    Allocation allocation;
    allocation.node_names = {hostname};
    if (auto gpus = read_granted_gpus(environment)) {
        allocation.granted_gpus = std::move(gpus->names);
        allocation.granted_gpus_from = std::move(gpus->from);
    }
    return allocation;
}

}  // namespace autolaunch::launcher
