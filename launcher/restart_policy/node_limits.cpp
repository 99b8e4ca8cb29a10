#include "restart_policy/node_limits.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {

std::optional<int> fewest_nodes(const JobSpec& spec) {
    const ResourceSpec& resources = spec.resources;
    if (resources.most_nodes <= resources.nodes || resources.total_ranks || !spec.programs.empty())
        return std::nullopt;
    return resources.nodes;
}

std::string describe_node_limits(const JobSpec& spec, int nodes) {
    const auto fewest = fewest_nodes(spec);
    if (!fewest || nodes < 2)
        return {};
    if (*fewest >= nodes)
        return fmt::format("a lost node: ends the job, all {} are needed", nodes);
    return fmt::format("a lost node: the job goes on with those that are left, {} at least",
                       *fewest == 1 ? "one" : std::to_string(*fewest));
}

}  // namespace autolaunch::launcher
