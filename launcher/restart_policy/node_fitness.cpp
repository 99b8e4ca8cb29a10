#include "restart_policy/node_fitness.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace autolaunch::launcher {

namespace {

bool is_machines_fault(Cause cause) {
    return cause == Cause::gpu || cause == Cause::network || cause == Cause::storage ||
           cause == Cause::node_lost;
}

}  // namespace

std::map<std::string, std::string> unfit_nodes(const RestartHistory& history) {
    std::map<std::string, std::vector<std::string_view>> causes;
    std::map<std::string, std::string> unfit;
    for (const PastEnd& end : history.ends)
        if (!end.node.empty() && is_machines_fault(end.cause))
            causes[end.node].push_back(name_of(end.cause));
    for (const PastEnd& end : history.ends)
        if (!end.node.empty() && end.elsewhere)
            unfit[end.node] = end.cause == Cause::straggler
                                  ? "the others waited for its ranks (restart.straggler: replace)"
                                  : fmt::format("restart_elsewhere, for {}", name_of(end.cause));
    for (const auto& [node, of_node] : causes)
        if (of_node.size() >= kFailuresOfUnfitNode)
            unfit[node] = fmt::format("{} generations ended there: {}", of_node.size(),
                                      fmt::join(of_node, ", "));
    return unfit;
}

std::map<std::string, std::string> nodes_to_exclude(const RestartHistory& history) {
    std::map<std::string, std::string> nodes = unfit_nodes(history);
    for (const PastEnd& end : history.ends)
        if (!end.node.empty() && end.cause == Cause::node_lost)
            nodes.emplace(end.node, "it was lost");
    return nodes;
}

}  // namespace autolaunch::launcher
