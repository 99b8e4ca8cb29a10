#include "progress/rank_activity.hpp"

#include <algorithm>

namespace autolaunch::launcher {

namespace {

constexpr int kIdlePercent = 5;
constexpr std::int64_t kMuchThrottled = 5, kMuchWaited = 20;
constexpr std::uint64_t kIdleBytes = 64U << 10;  // what it logs meanwhile

Doing doing_of(char state, bool moves) {
    if (state == 'T' || state == 't')
        return state == 'T' ? Doing::stopped : Doing::traced;
    if (moves || state == 'R')  // it may be the machine that has no time for it
        return Doing::working;
    return state == 'D' ? Doing::blocked : Doing::still;
}

// What keeps it from computing; empty: nothing that is seen.
std::string describe_want(std::int64_t throttled_percent, std::int64_t waited_percent) {
    std::string text;
    if (throttled_percent >= kMuchThrottled)
        text = "was throttled by its cgroup for " + std::to_string(throttled_percent) +
               " % of the time";
    if (waited_percent >= kMuchWaited)
        text += (text.empty() ? "waited for a CPU for " : ", and waited for a CPU for ") +
                std::to_string(waited_percent) + " % of it: others compute on its cores";
    return text;
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
    if (between > 0)
        activity.what = describe_want((second.throttled - first.throttled).count() * 100 / between,
                                      (second.waited - first.waited).count() * 100 / between);
    activity.doing = doing_of(state, activity.cpu_percent > kIdlePercent || bytes > kIdleBytes);
    return activity;
}

}  // namespace autolaunch::launcher
