#include "comm/split_plan.hpp"

#include <algorithm>

namespace autolaunch {

SplitPlan plan_split(std::span<const ColorAndKey> wishes, int rank) {
    SplitPlan plan;
    const int color = wishes[static_cast<std::size_t>(rank)].color;
    if (color < 0)
        return plan;
    for (std::size_t other = 0; other < wishes.size(); ++other) {
        if (wishes[other].color == color)
            plan.parent_ranks.push_back(static_cast<int>(other));
    }
    const auto key = [&](int other) { return wishes[static_cast<std::size_t>(other)].key; };
    std::stable_sort(plan.parent_ranks.begin(), plan.parent_ranks.end(),
                     [&](int left, int right) { return key(left) < key(right); });
    const auto at = std::find(plan.parent_ranks.begin(), plan.parent_ranks.end(), rank);
    plan.rank = static_cast<int>(at - plan.parent_ranks.begin());
    return plan;
}

}  // namespace autolaunch
