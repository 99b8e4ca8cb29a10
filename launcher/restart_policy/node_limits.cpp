#include "restart_policy/node_limits.hpp"

#include "restart_policy/cause_policy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

std::string count(int nodes) { return nodes == 1 ? "one" : std::to_string(nodes); }

}  // namespace

std::optional<int> fewest_nodes(const JobSpec& spec) {
    const ResourceSpec& resources = spec.resources;
    const bool may_change = resources.most_nodes > resources.nodes || resources.spare_nodes > 0;
    if (!may_change || resources.total_ranks || !spec.programs.empty())
        return std::nullopt;
    return resources.nodes;
}

// A node too few is a spare too few: the job itself comes first.
int nodes_at_start(const JobSpec& spec, int joined) {
    const ResourceSpec& resources = spec.resources;
    const int group = fewest_nodes(spec) ? resources.node_group : 1;
    const int most = std::max(resources.nodes, resources.most_nodes);
    const int wanted = resources.spare_nodes == 0
                           ? joined
                           : std::clamp(joined - resources.spare_nodes,
                                        std::min(resources.nodes, joined), std::min(most, joined));
    return wanted - wanted % group;
}

std::string describe_node_limits(const JobSpec& spec, int nodes, int spares) {
    const auto fewest = fewest_nodes(spec);
    if (!fewest || nodes + spares < 2)
        return {};
    const std::string takes_over =
        spares > 0 ? fmt::format("a spare takes over ({} there)", count(spares)) : "";
    if (*fewest >= nodes)
        return fmt::format("a lost node: {}ends the job, all {} are needed",
                           spares > 0 ? takes_over + ", then " : "", nodes);
    return fmt::format("a lost node: {}the job goes on with those that are left, {} at least",
                       spares > 0 ? takes_over + ", then " : "", count(*fewest));
}

std::string why_no_replacement(const JobSpec& spec) {
    if (spec.restart.straggler != kReplaceStragglers || fewest_nodes(spec))
        return {};
    return spec.resources.total_ranks || !spec.programs.empty()
               ? "ranks are counted in all (-np, several programs), so every node is needed"
               : "every node is needed: resource_management.nodes {min, max, spares} says of how "
                 "many the job may be";
}

bool may_start_anew(const JobSpec& spec) {
    return wants_restarts(spec.restart) || fewest_nodes(spec).has_value();
}

std::string describe_straggler_policy(const JobSpec& spec) {
    const std::string what = "a rank for which the others wait: ";
    if (spec.restart.straggler == "off")
        return what + "not told of (restart.straggler: off)";
    if (spec.restart.straggler != kReplaceStragglers)
        return what + "told of (restart.straggler: warn)";
    const std::string why = why_no_replacement(spec);
    if (!why.empty())
        return what + "told of, and not replaced: " + why;
    for (const CausePolicy& policy : restart_policy(spec.restart))
        if (policy.cause == Cause::straggler && policy.window)
            return what + fmt::format(
                              "told of; where it lasts, its node is left out, {} times in "
                              "{:g} h at most",
                              policy.window->times,
                              static_cast<double>(policy.window->within.count()) / 3.6e6);
    return what + "told of; where it lasts, its node is left out";
}

}  // namespace autolaunch::launcher
