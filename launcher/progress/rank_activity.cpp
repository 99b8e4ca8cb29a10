#include "progress/rank_activity.hpp"

#include <algorithm>

namespace autolaunch::launcher {

namespace {

constexpr int kIdlePercent = 5;
constexpr std::uint64_t kIdleBytes = 64U << 10;  // what it logs meanwhile

Doing doing_of(char state, bool moves) {
    if (state == 'T' || state == 't')
        return state == 'T' ? Doing::stopped : Doing::traced;
    if (moves || state == 'R')  // it may be the machine that has no time for it
        return Doing::working;
    return state == 'D' ? Doing::blocked : Doing::still;
}

}  // namespace

RankActivity compare_looks(const ActivityLook& first, const ActivityLook& second, char state) {
    const auto between =
        std::chrono::duration_cast<std::chrono::milliseconds>(second.at - first.at).count();
    // Descendants that ended between the looks take what they had used with them.
    const auto cpu = std::max<std::int64_t>(0, (second.cpu_time - first.cpu_time).count());
    const auto bytes = second.moved_bytes - std::min(first.moved_bytes, second.moved_bytes);
    RankActivity activity;
    activity.cpu_percent = between > 0 ? static_cast<int>(cpu * 100 / between) : 0;
    activity.doing = doing_of(state, activity.cpu_percent > kIdlePercent || bytes > kIdleBytes);
    return activity;
}

}  // namespace autolaunch::launcher
