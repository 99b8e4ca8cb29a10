#include "checkpoint/drain/drain_plan.hpp"

#include <algorithm>
#include <functional>
#include <set>

namespace autolaunch {
namespace {

using Steps = std::set<std::int64_t, std::greater<>>;  // newest first

Steps staying(const Steps& steps, const DrainRetention& retention) {
    Steps stay;
    int newest = std::max(1, retention.keep);
    for (const std::int64_t step : steps)
        if (newest-- > 0 || (retention.keep_every > 0 && step % retention.keep_every == 0)) stay.insert(step);
    return stay;
}

}  // namespace

DrainDecision decide_drain(const std::vector<std::int64_t>& near, const std::vector<FarCheckpoint>& far,
                           const DrainRetention& retention) {
    Steps complete;
    for (const FarCheckpoint& checkpoint : far)
        if (checkpoint.complete) complete.insert(checkpoint.step);
    Steps all = complete;
    all.insert(near.begin(), near.end());
    DrainDecision decision;
    for (const std::int64_t step : staying(all, retention))
        if (!complete.contains(step) && !decision.copy) decision.copy = step;
    if (decision.copy || complete.empty()) return decision;

    const Steps stay = staying(complete, retention);
    for (const FarCheckpoint& checkpoint : far)
        if (!checkpoint.complete || !stay.contains(checkpoint.step)) decision.remove.push_back(checkpoint);
    return decision;
}

}  // namespace autolaunch
