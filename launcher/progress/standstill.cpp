#include "progress/standstill.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLines = 4;
constexpr std::size_t kLongestList = 60;
constexpr StepWatch::Time kStopIsMeant{5000};  // SIGSTOP and a debugger's look

double seconds(StepWatch::Time time) { return static_cast<double>(time.count()) / 1000; }

bool is_held(const RankActivity& activity) {
    return activity.doing == Doing::stopped || activity.doing == Doing::traced;
}

std::string describe(const RankActivity& activity) {
    const std::string who = fmt::format("rank {} (pid {}) ", activity.rank, activity.pid);
    if (activity.doing == Doing::working)
        return who + fmt::format("works ({}% of a CPU){}{}", activity.cpu_percent,
                                 activity.what.empty() ? "" : ", ", activity.what);
    return who + (activity.what.empty() ? "stands still" : activity.what);
}

bool is_in_call(const StandstillFacts& facts, int rank) {
    return std::find(facts.in_collective.begin(), facts.in_collective.end(), rank) !=
           facts.in_collective.end();
}

using Places = std::map<std::string, std::vector<int>>;

Places waiting_places(const std::vector<RankActivity>& activities) {
    Places places;
    for (const RankActivity& activity : activities)
        if (activity.doing == Doing::waits)
            places[activity.what].push_back(activity.rank);
    return places;
}

// Where all wait, and some elsewhere than the most: nothing where that is no difference.
std::vector<int> odd_ones(const std::vector<RankActivity>& activities) {
    std::vector<int> odd;
    const Places places = waiting_places(activities);
    const auto by_size = [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
    };
    const auto most = std::max_element(places.begin(), places.end(), by_size);
    if (most == places.end() || 2 * most->second.size() <= activities.size())
        return odd;
    for (auto place = places.begin(); place != places.end(); ++place)
        if (place != most)
            odd.insert(odd.end(), place->second.begin(), place->second.end());
    std::sort(odd.begin(), odd.end());
    return odd;
}

// "ranks 0,2-7 wait in all_reduce, called in train (train.py:40)", those alike together.
std::vector<std::string> describe_waiting(const std::vector<RankActivity>& activities,
                                          bool odd_ones_first) {
    std::vector<std::pair<std::string, std::vector<int>>> places;
    for (auto& place : waiting_places(activities))
        places.push_back(place);
    std::stable_sort(places.begin(), places.end(), [=](const auto& a, const auto& b) {
        return odd_ones_first ? a.second.size() < b.second.size()
                              : a.second.size() > 1 && b.second.size() == 1;
    });
    places.resize(std::min(places.size(), kLines));
    std::vector<std::string> lines;
    for (auto& [place, ranks] : places) {
        std::sort(ranks.begin(), ranks.end());
        std::string list = format_list(ranks);
        if (list.size() > kLongestList)
            list = fmt::format("{} and others, {} in all", ranks.front(), ranks.size());
        lines.push_back(fmt::format("rank{} {} wait{} {}", ranks.size() == 1 ? "" : "s", list,
                                    ranks.size() == 1 ? "s" : "", place));
    }
    return lines;
}

}  // namespace

Standstill judge_standstill(const StandstillFacts& facts) {
    Standstill found;
    found.headline = fmt::format(
        "{} for {:.1f} s",
        facts.overdue.by_signs ? "nothing was printed, read, written or sent" : "no step",
        seconds(facts.overdue.silence));
    found.moves_elsewhere =
        (facts.overdue.by_signs && facts.quiet && *facts.quiet < facts.overdue.silence / 2) ||
        std::any_of(facts.activities.begin(), facts.activities.end(),
                    [](const RankActivity& activity) {
                        return activity.doing == Doing::awaits_data;  // who brings it is watched
                    });
    if (facts.overdue.by_signs && facts.overdue.usual.count() > 0)
        found.headline +=
            fmt::format(", where something comes every {:.1f} s", seconds(facts.overdue.usual));
    else if (facts.overdue.usual.count() > 0)  // else it is not known yet
        found.headline += fmt::format(", where one takes {:.{}f} s", seconds(facts.overdue.usual),
                                      facts.overdue.usual < StepWatch::Time(100) ? 3 : 1);
    std::vector<RankActivity> awaited;
    for (const RankActivity& activity : facts.activities)
        if (is_held(activity) ||
            (activity.doing != Doing::waits && !is_in_call(facts, activity.rank)))
            awaited.push_back(activity);
    // Who waits for others in MPI or NCCL may spin, and who waits in a library that nobody knows
    // does what most do: the odd one is the one that does not.
    std::map<std::string, int> alike;
    for (const RankActivity& activity : awaited)
        ++alike[activity.what];
    std::sort(awaited.begin(), awaited.end(), [&](const RankActivity& a, const RankActivity& b) {
        const auto order = [&](const RankActivity& one) {
            const bool works = one.doing == Doing::working;
            return std::tuple(works, works ? 0 : alike[one.what], one.rank);
        };
        return order(a) < order(b);
    });
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
    if (awaited.empty())
        found.ranks = odd_ones(facts.activities);
    if (awaited.size() > kLines)
        found.lines.back() = fmt::format("and {} other ranks", awaited.size() - (kLines - 1));
    for (std::string& line :
         describe_waiting(facts.activities, awaited.empty() && !found.ranks.empty()))
        found.lines.push_back(std::move(line));
    if (facts.silent_nodes > 0)
        found.lines.push_back(fmt::format("{} {} not answered in time", facts.silent_nodes,
                                          facts.silent_nodes == 1 ? "node has" : "nodes have"));
    return found;
}

bool ends_generation(const Standstill& found, const StepWatch::Overdue& overdue,
                     StepWatch::Time limit, bool told) {
    if (found.is_traced || overdue.silence < limit)
        return false;
    if (found.moves_elsewhere)
        return false;
    return told || (found.sure && overdue.far && !found.is_stopped && !overdue.by_signs);
}

}  // namespace autolaunch::launcher
