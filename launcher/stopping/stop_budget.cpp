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
    return times.kill_wait ? ranks_within(times, *times.kill_wait) : grace_wanted(times);
}

/// What ranks need: by their saves; where none was measured, what they may take.
milliseconds needed_by_ranks(const StopTimes& times) {
    return times.save ? needed_for(*times.save) : grace_wanted(times);
}

bool save_fits(const StopTimes& times) {
    return !times.save || needed_for(*times.save) <= given_after_term(times);
}

bool copies_fit(const StopTimes& times) {
    return times.copies.count() == 0 || !times.kill_wait ||
           given_after_term(times) + times.copies <= grace_within(*times.kill_wait);
}

/// "a save takes 41 s", "20 s are for copies (storage.stage_out_time)", or both.
std::string demand(const StopTimes& times) {
    std::string text;
    if (times.save)
        text = "a save takes " + in_seconds(*times.save);
    if (times.copies.count() > 0)
        text +=
            fmt::format("{}{} {} for copies (storage.stage_out_time)", text.empty() ? "" : " and ",
                        in_seconds(times.copies), text.empty() ? "are" : "more are");
    return text;
}

std::string remedy(const StopTimes& times) {
    const milliseconds ranks = needed_by_ranks(times), need = ranks + times.copies;
    const bool killer_is_near = times.kill_wait && grace_within(*times.kill_wait) < need;
    if (!killer_is_near)
        return fmt::format("restart.grace_period is {}: raise it to {}s",
                           in_seconds(times.grace_period), whole(ranks).count());
    const std::string given = in_seconds(*times.kill_wait);
    switch (times.killer) {
        case StopTimes::Killer::slurm:
            return fmt::format(
                "KillWait is {}: use --signal=TERM@{}", given,
                signal_lead(times.save.value_or(times.grace_period), times.copies).count());
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

milliseconds ranks_within(const StopTimes& times, milliseconds left) {
    const milliseconds whole = grace_within(left);
    const milliseconds least = times.save ? std::min(needed_for(*times.save), whole) : whole / 2;
    const milliseconds ranks =
        times.copies.count() > 0 ? std::max(whole - times.copies, least) : whole;
    return std::min(grace_wanted(times), ranks);
}

std::string budget_warning(const StopTimes& times) {
    if (save_fits(times) && copies_fit(times))
        return {};
    return demand(times) + ", " + remedy(times);
}

std::string budget_note(const StopTimes& times) {
    if (!times.save || !save_fits(times) || !copies_fit(times))
        return {};
    const std::string copies = times.copies.count() > 0 && times.kill_wait
                                   ? fmt::format(", before {} for copies", in_seconds(times.copies))
                                   : "";
    return fmt::format("a save takes {} ({} measured) and fits into the {} after SIGTERM{}",
                       in_seconds(*times.save), times.saves, in_seconds(given_after_term(times)),
                       copies);
}

std::chrono::seconds signal_lead(milliseconds save, milliseconds copies) {
    constexpr auto kMinute = 60s;
    const auto need = whole(needed_for(save) + copies) + kMinute;
    return (need + kMinute - 1s) / kMinute * kMinute;
}

milliseconds last_moment_before_end(const StopTimes& times, milliseconds step) {
    return needed_by_ranks(times) + times.copies + step + kMostMargin + kSlack;
}

}  // namespace autolaunch::launcher
