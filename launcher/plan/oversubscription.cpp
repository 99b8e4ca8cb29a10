#include "plan/oversubscription.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

// An empty set is the inherited mask, which holds all others.
bool holds(const std::vector<int>& outer, const std::vector<int>& inner) {
    if (outer.empty() || inner.empty())
        return outer.empty();
    return std::includes(outer.begin(), outer.end(), inner.begin(), inner.end());
}

}  // namespace

std::string describe_oversubscription(const LaunchPlan& plan) {
    const auto ranks = static_cast<int>(plan.ranks.size());
    if (plan.cpu_quota && static_cast<double>(ranks) > *plan.cpu_quota)
        return fmt::format("{} ranks on {:g} CPUs' worth of time", ranks, *plan.cpu_quota);
    for (const RankPlan& rank : plan.ranks) {
        const auto& cpus = rank.binding.cpus;
        const int count = cpus.empty() ? plan.allowed_cpu_count : static_cast<int>(cpus.size());
        const auto within = static_cast<int>(
            std::count_if(plan.ranks.begin(), plan.ranks.end(),
                          [&](const RankPlan& other) { return holds(cpus, other.binding.cpus); }));
        if (count > 0 && within > count)
            return fmt::format("{} ranks on {} CPU{}", within, count, count == 1 ? "" : "s");
    }
    return {};
}

}  // namespace autolaunch::launcher
