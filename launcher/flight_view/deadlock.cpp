#include "flight_view/deadlock.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostGroups = 8;

/// Who waits in what a group is stuck in, and who has not entered it; processes that are there.
struct Stuck {
    const FlightGroup* group = nullptr;
    std::vector<int> waiting, missing;
};

Stuck stuck_in(const FlightGroup& group) {
    Stuck stuck{&group, {}, {}};
    for (const FlightMember& member : group.members)
        if (!member.ended && member.current != nullptr && member.current->sequence == *group.stuck)
            stuck.waiting.push_back(member.rank);
    for (const FlightMember* member : members_behind(group))
        if (!member->ended)
            stuck.missing.push_back(member->rank);
    std::sort(stuck.waiting.begin(), stuck.waiting.end());
    std::sort(stuck.missing.begin(), stuck.missing.end());
    return stuck;
}

std::vector<int> both(const std::vector<int>& one, const std::vector<int>& other) {
    std::vector<int> common;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                          std::back_inserter(common));
    return common;
}

}  // namespace

Deadlock find_deadlock(const FlightPicture& picture) {
    std::vector<Stuck> all;
    for (const FlightGroup& group : picture.groups)
        if (group.stuck && all.size() < kMostGroups)
            all.push_back(stuck_in(group));
    for (auto one = all.begin(); one != all.end(); ++one)
        for (auto other = std::next(one); other != all.end(); ++other) {
            Deadlock found{one->group, other->group, both(one->waiting, other->missing),
                           both(other->waiting, one->missing)};
            if (!found.in_one.empty() && !found.in_other.empty())
                return found;
        }
    return {};
}

}  // namespace autolaunch::launcher
