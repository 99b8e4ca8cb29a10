#include "restart_policy/node_fitness.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr char kWasLost[] = "it was lost";

bool is_machines_fault(Cause cause) {
    return cause == Cause::gpu || cause == Cause::network || cause == Cause::storage ||
           cause == Cause::node_lost;
}

// Somebody has taken the node back since.
bool is_forgiven(const RestartHistory& history, const std::string& node,
                 std::chrono::system_clock::time_point at) {
    return std::any_of(history.taken_back.begin(), history.taken_back.end(),
                       [&](const NodeWord& word) { return word.node == node && at <= word.at; });
}

// That began on a node, which nobody has taken back since.
std::vector<PastEnd> ends_that_count(const RestartHistory& history) {
    std::vector<PastEnd> ends;
    for (const PastEnd& end : history.ends)
        if (!end.node.empty() && !is_forgiven(history, end.node, end.at))
            ends.push_back(end);
    return ends;
}

}  // namespace

std::map<std::string, std::string> unfit_nodes(const RestartHistory& history) {
    const std::vector<PastEnd> ends = ends_that_count(history);
    std::map<std::string, std::vector<std::string_view>> causes;
    std::map<std::string, std::string> unfit;
    for (const PastEnd& end : ends)
        if (is_machines_fault(end.cause))
            causes[end.node].push_back(name_of(end.cause));
    for (const PastEnd& end : ends)
        if (end.elsewhere)
            unfit[end.node] = end.cause == Cause::straggler
                                  ? "the others waited for its ranks (restart.straggler: replace)"
                                  : fmt::format("restart_elsewhere, for {}", name_of(end.cause));
    for (const auto& [node, of_node] : causes)
        if (of_node.size() >= kFailuresOfUnfitNode)
            unfit[node] = fmt::format("{} generations ended there: {}", of_node.size(),
                                      fmt::join(of_node, ", "));
    for (const NodeWord& found : history.unfit)
        if (!is_forgiven(history, found.node, found.at))
            unfit[found.node] = found.why;
    return unfit;
}

std::map<std::string, std::string> nodes_to_exclude(const RestartHistory& history) {
    std::map<std::string, std::string> nodes = unfit_nodes(history);
    for (const PastEnd& end : ends_that_count(history))
        if (end.cause == Cause::node_lost)
            nodes.emplace(end.node, kWasLost);
    for (const NodeWord& lost : history.lost)
        if (!is_forgiven(history, lost.node, lost.at))
            nodes.emplace(lost.node, kWasLost);
    return nodes;
}

std::set<std::string> nodes_lost_since(const RestartHistory& history,
                                       std::chrono::system_clock::time_point since) {
    std::set<std::string> nodes;
    for (const PastEnd& end : history.ends)
        if (end.cause == Cause::node_lost && end.at >= since)
            nodes.insert(end.node);
    for (const NodeWord& lost : history.lost)
        if (lost.at >= since)
            nodes.insert(lost.node);
    return nodes;
}

}  // namespace autolaunch::launcher
