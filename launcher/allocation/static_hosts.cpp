#include "allocation/adapters.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

namespace autolaunch::launcher {

std::optional<Allocation> read_static_allocation(const EnvironmentMap& environment, const std::string& hostname,
                                                 const NodeOptions& options) {
    if (!options.node_rank || options.nodes <= 1) return std::nullopt;
    const int node_rank = *options.node_rank;
    if (node_rank < 0 || node_rank >= options.nodes) {
        throw Error(ErrorCode::invalid_argument, fmt::format("node rank {} of {} nodes", node_rank, options.nodes),
                    fmt::format("node ranks count from 0: --node-rank is at most {} here", options.nodes - 1));
    }
    if (options.head_address.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("node {} of {} is not told where node 0 is", node_rank, options.nodes),
                    "give --master-addr=HOST, a name or an address of node 0, on every node");
    }
    Allocation allocation;
    allocation.source = "static";
    allocation.node_names = nameless_nodes(options.nodes);
    allocation.node_names[static_cast<std::size_t>(node_rank)] = hostname;
    allocation.node_rank = node_rank;
    allocation.head_address = options.head_address;
    allocation.keeps_node_order = true;
    allocation.job_id = slurm_job_id(environment);
    fill_slurm_job(allocation, environment);
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
