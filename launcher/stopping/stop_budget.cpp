#include "stopping/stop_budget.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kDefaultGrace = 15s;
constexpr milliseconds kLeastMargin = 1s, kMostMargin = 3s;
constexpr milliseconds kSlack = 3s;  // timers, clocks that differ, the way to the other nodes

std::string in_seconds(milliseconds time) {
    const double value = static_cast<double>(time.count()) / 1000;
    return value < 10 ? fmt::format("{:.1f} s", value) : fmt::format("{:.0f} s", value);
}

std::chrono::seconds whole(milliseconds time) {
    return std::chrono::ceil<std::chrono::seconds>(time);
}

milliseconds given_after_term(const StopTimes& times) {
    const milliseconds wanted = grace_wanted(times);
    return times.kill_wait ? std::min(wanted, grace_within(*times.kill_wait)) : wanted;
}

std::string remedy(const StopTimes& times) {
    const milliseconds need = needed_for(times.save.value());
    const bool killer_is_near = times.kill_wait && grace_within(*times.kill_wait) < need;
    if (!killer_is_near)
        return fmt::format("restart.grace_period is {}: raise it to {}s",
                           in_seconds(times.grace_period), whole(need).count());
    const std::string given = in_seconds(*times.kill_wait);
    switch (times.killer) {
        case StopTimes::Killer::slurm:
            return fmt::format("KillWait is {}: use --signal=TERM@{}", given,
                               signal_lead(*times.save).count());
        case StopTimes::Killer::kubernetes:
            return fmt::format(
                "the pod has {} after SIGTERM: set terminationGracePeriodSeconds, and "
                "restart.kill_wait with it, to {}",
                given, whole(need + kMostMargin).count());
        case StopTimes::Killer::nobody:
        case StopTimes::Killer::other:
            break;
    }
    return fmt::format("restart.kill_wait is {}: {} are needed", given,
                       in_seconds(need + kMostMargin));
}

}  // namespace

milliseconds needed_for(milliseconds save) { return save + std::max<milliseconds>(2s, save / 5); }

milliseconds grace_wanted(const StopTimes& times) {
    if (!times.save || times.grace_period != kDefaultGrace)
        return times.grace_period;
    return std::max(times.grace_period, needed_for(*times.save));
}

milliseconds grace_within(milliseconds left) {
    return std::max(left - std::clamp(left / 5, kLeastMargin, kMostMargin), milliseconds(0));
}

std::string budget_warning(const StopTimes& times) {
    if (!times.save || needed_for(*times.save) <= given_after_term(times))
        return {};
    return fmt::format("a save takes {}, {}", in_seconds(*times.save), remedy(times));
}

std::string budget_note(const StopTimes& times) {
    if (!times.save || needed_for(*times.save) > given_after_term(times))
        return {};
    return fmt::format("a save takes {} ({} measured) and fits into the {} after SIGTERM",
                       in_seconds(*times.save), times.saves, in_seconds(given_after_term(times)));
}

std::chrono::seconds signal_lead(milliseconds save) {
    constexpr auto kMinute = 60s;
    const auto need = whole(needed_for(save)) + kMinute;
    return (need + kMinute - 1s) / kMinute * kMinute;
}

milliseconds last_moment_before_end(milliseconds save, milliseconds step) {
    return needed_for(save) + step + kMostMargin + kSlack;
}

}  // namespace autolaunch::launcher
