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

const FarCheckpoint* newest_of(const std::vector<FarCheckpoint>& far) {
    const FarCheckpoint* newest = nullptr;
    for (const FarCheckpoint& checkpoint : far)
        if (checkpoint.complete && (!newest || checkpoint.step > newest->step))
            newest = &checkpoint;
    return newest;
}

// Far enough from the newest there. What does not say when it was saved is.
bool is_due(const NearCheckpoint& checkpoint, const FarCheckpoint& newest,
            const DrainRetention& retention) {
    if (retention.every_steps == 0 && retention.every_ms == 0)
        return true;
    if (retention.keep_every > 0 && checkpoint.step % retention.keep_every == 0)
        return true;
    if (checkpoint.step <= newest.step)
        return false;
    if (retention.every_steps > 0 && checkpoint.step - newest.step >= retention.every_steps)
        return true;
    return retention.every_ms > 0 &&
           (!checkpoint.saved_ms || !newest.saved_ms ||
            *checkpoint.saved_ms - *newest.saved_ms >= retention.every_ms);
}

}  // namespace

DrainDecision decide_drain(const std::vector<NearCheckpoint>& near,
                           const std::vector<FarCheckpoint>& far, const DrainRetention& retention,
                           bool at_end) {
    Metrics complete;
    for (const FarCheckpoint& checkpoint : far)
        if (checkpoint.complete)
            complete[checkpoint.step] = checkpoint.metric;
    Metrics all = complete;
    const FarCheckpoint* const newest = newest_of(far);
    const auto last = std::max_element(
        near.begin(), near.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    for (const NearCheckpoint& checkpoint : near)
        if (!newest || is_due(checkpoint, *newest, retention) ||
            (at_end && checkpoint.step == last->step))
            all.emplace(checkpoint.step, checkpoint.metric);
    DrainDecision decision;
    for (const std::int64_t step : staying(all, retention))
        if (!complete.contains(step))
            decision.left.push_back(step);
    if (!decision.left.empty())
        decision.copy = decision.left.front();
    if (decision.copy || complete.empty())
        return decision;

    const Steps stay = staying(complete, retention);
    for (const FarCheckpoint& checkpoint : far)
        if (!checkpoint.complete || !stay.contains(checkpoint.step))
            decision.remove.push_back(checkpoint);
    return decision;
}

}  // namespace autolaunch
