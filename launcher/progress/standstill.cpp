#include "progress/standstill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLines = 4;
constexpr StepWatch::Time kStopIsMeant{5000};  // SIGSTOP and a debugger's look

double seconds(StepWatch::Time time) { return static_cast<double>(time.count()) / 1000; }

bool is_held(const RankActivity& activity) {
    return activity.doing == Doing::stopped || activity.doing == Doing::traced;
}

std::string describe(const RankActivity& activity) {
    const std::string who = fmt::format("rank {} (pid {}) ", activity.rank, activity.pid);
    if (activity.doing == Doing::working)
        return who + fmt::format("works ({}% of a CPU)", activity.cpu_percent);
    return who + (activity.what.empty() ? "stands still" : activity.what);
}

}  // namespace

Standstill judge_standstill(const StandstillFacts& facts) {
    Standstill found;
    found.headline = fmt::format("no step for {:.1f} s", seconds(facts.overdue.silence));
    if (facts.overdue.usual.count() > 0)  // else it is not known yet
        found.headline += fmt::format(", where one takes {:.{}f} s", seconds(facts.overdue.usual),
                                      facts.overdue.usual < StepWatch::Time(100) ? 3 : 1);
    std::vector<RankActivity> awaited;
    for (const RankActivity& activity : facts.activities)
        if (is_held(activity) || std::find(facts.in_collective.begin(), facts.in_collective.end(),
                                           activity.rank) == facts.in_collective.end())
            awaited.push_back(activity);
    std::sort(awaited.begin(), awaited.end(),
              [](const RankActivity& a, const RankActivity& b) { return a.rank < b.rank; });
    const bool may_go_on =
        std::any_of(awaited.begin(), awaited.end(), [&](const RankActivity& activity) {
            return activity.doing == Doing::working || activity.doing == Doing::blocked ||
                   (is_held(activity) && facts.overdue.silence < kStopIsMeant);
        });
    found.sure = !may_go_on && facts.silent_nodes == 0 && !facts.activities.empty();
    for (const RankActivity& activity : awaited) {
        found.ranks.push_back(activity.rank);
        found.is_stopped = found.is_stopped || activity.doing == Doing::stopped;
        found.is_traced = found.is_traced || activity.doing == Doing::traced;
        if (found.lines.size() < kLines)
            found.lines.push_back(describe(activity));
    }
    if (awaited.size() > kLines)
        found.lines.back() = fmt::format("and {} other ranks", awaited.size() - (kLines - 1));
    if (facts.silent_nodes > 0)
        found.lines.push_back(fmt::format("{} {} not answered in time", facts.silent_nodes,
                                          facts.silent_nodes == 1 ? "node has" : "nodes have"));
    return found;
}

bool ends_generation(const Standstill& found, const StepWatch::Overdue& overdue,
                     StepWatch::Time limit, bool told) {
    if (found.is_traced || overdue.silence < limit)
        return false;
    return told || (found.sure && overdue.far && !found.is_stopped);
}

}  // namespace autolaunch::launcher
