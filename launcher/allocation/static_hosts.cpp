#include "allocation/adapters.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

std::optional<Allocation> read_static_allocation(const EnvironmentMap& environment,
                                                 const std::string& hostname,
                                                 const NodeOptions& options) {
    if (!options.node_rank)
        return std::nullopt;
    const int node_rank = *options.node_rank, nodes = all_nodes(options);
    if (node_rank < 0 || node_rank >= nodes) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("node rank {} of {} nodes", node_rank, nodes),
                    "node ranks count from 0; --nnodes says how many nodes there are");
    }
    if (nodes == 1)
        return std::nullopt;  // torchrun's default: it says nothing
    if (options.head_address.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("node {} of {} is not told where node 0 is", node_rank, nodes),
                    "give --master-addr=HOST, a name or an address of node 0, on every node");
    }
    Allocation allocation;
    allocation.source = "static";
    allocation.node_names = nameless_nodes(nodes);
    allocation.node_names[static_cast<std::size_t>(node_rank)] = hostname;
    allocation.node_rank = node_rank;
    allocation.head_address = options.head_address;
    allocation.keeps_node_order = true;
    fill_slurm_job(allocation, environment);
    fill_granted_gpus(allocation, environment);
    return allocation;
}

std::optional<Allocation> read_meeting_allocation(const EnvironmentMap& environment,
                                                  const std::string& hostname,
                                                  const NodeOptions& options) {
    const int nodes = all_nodes(options);
    if (!options.is_meeting_place || options.head_address.empty() || nodes < 2)
        return std::nullopt;
    Allocation allocation;
    allocation.source = "static";
    allocation.node_names = nameless_nodes(nodes);
    allocation.node_names[0] = hostname;
    allocation.head_address = options.head_address;
    allocation.numbered_by_arrival = true;
    fill_slurm_job(allocation, environment);
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
