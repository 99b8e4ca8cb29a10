#include "checkpoint/drain/drain_plan.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace autolaunch {
namespace {

using Steps = std::set<std::int64_t, std::greater<>>;  // newest first
using Metrics = std::map<std::int64_t, std::optional<double>, std::greater<>>;

Steps staying(const Metrics& steps, const DrainRetention& retention) {
    Steps stay;
    std::vector<std::pair<double, std::int64_t>> rated;
    int newest = std::max(1, retention.keep);
    for (const auto& [step, metric] : steps) {
        if (newest-- > 0 || (retention.keep_every > 0 && step % retention.keep_every == 0))
            stay.insert(step);
        else if (metric && !std::isnan(*metric))
            rated.emplace_back(retention.lower_is_better ? *metric : -*metric, -step);
    }
    std::sort(rated.begin(), rated.end());
    for (std::size_t i = 0; i < rated.size() && static_cast<int>(i) < retention.keep_best; ++i)
        stay.insert(-rated[i].second);
    return stay;
}

}  // namespace

DrainDecision decide_drain(const std::vector<NearCheckpoint>& near,
                           const std::vector<FarCheckpoint>& far, const DrainRetention& retention) {
    Metrics complete;
    for (const FarCheckpoint& checkpoint : far)
        if (checkpoint.complete)
            complete[checkpoint.step] = checkpoint.metric;
    Metrics all = complete;
    for (const NearCheckpoint& checkpoint : near)
        all.emplace(checkpoint.step, checkpoint.metric);
    DrainDecision decision;
    for (const std::int64_t step : staying(all, retention))
        if (!complete.contains(step) && !decision.copy)
            decision.copy = step;
    if (decision.copy || complete.empty())
        return decision;

    const Steps stay = staying(complete, retention);
    for (const FarCheckpoint& checkpoint : far)
        if (!checkpoint.complete || !stay.contains(checkpoint.step))
            decision.remove.push_back(checkpoint);
    return decision;
}

}  // namespace autolaunch
