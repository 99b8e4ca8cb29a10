#include "flight_view/flight_picture.hpp"

#include "flight/flight_ring.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace autolaunch::launcher {

namespace {

using flight::Kind;
using flight::RecordedCall;
using flight::RecordedGroup;
using flight::RecordedRank;
using flight::State;

Kind kind_of(const flight::RecordedCall& call) { return static_cast<Kind>(call.kind); }
bool is_finished(const flight::RecordedCall& call) {
    return static_cast<State>(call.state) == State::finished;
}

/// What a rank was doing in a group: the recorder's calls in the order of their sequences, oldest
/// first.
FlightMember member_of(const flight::RecordedRank& rank, const flight::RecordedGroup& group) {
    FlightMember member{.rank = rank.rank,
                        .place = group.place,
                        .ended = rank.ended,
                        .in_use = group.in_use,
                        .group = &group};
    member.entered = group.collectives;
    for (const flight::RecordedCall& call : group.calls) {
        if (flight::is_message(kind_of(call))) {
            if (is_finished(call)) {
                member.message = nullptr;  // messages of a group end in their order
            } else if (member.message == nullptr) {
                member.message = &call;
            }
            continue;
        }
        member.entered = std::max(member.entered, call.sequence);
        // A finished call shows that those before it are: a device's end may not have been asked
        // for, and a failure that did not end the group is of the past.
        if (is_finished(call)) {
            if (member.last == nullptr || call.sequence > member.last->sequence)
                member.last = &call;
            member.current = nullptr;
        } else if (member.current == nullptr) {
            member.current = &call;
        }
    }
    if (member.current != nullptr) {
        member.finished = member.current->sequence - 1;
    } else {
        member.finished = member.last != nullptr ? member.last->sequence : 0;
    }
    return member;
}

// What must be alike on all ranks. all_to_all's bytes are each rank's own.
auto signature(const flight::RecordedCall& call) {
    const Kind kind = kind_of(call);
    const bool bytes_differ = kind == Kind::all_to_all || kind == Kind::split;
    return std::tuple(call.kind, flight::reduces(kind) ? call.op : 0, call.type,
                      flight::has_root(kind) ? call.root : -1, bytes_differ ? 0 : call.bytes);
}

std::vector<FlightParty> parties_at(
    std::uint64_t sequence,
    const std::multimap<std::uint64_t, std::pair<int, const flight::RecordedCall*>>& calls) {
    std::vector<FlightParty> parties;
    const auto [begin, end] = calls.equal_range(sequence);
    for (auto at = begin; at != end; ++at) {
        const auto& [rank, call] = at->second;
        auto party = std::find_if(parties.begin(), parties.end(),
                                  [&, wanted = call](const FlightParty& one) {
                                      return signature(*one.call) == signature(*wanted);
                                  });
        if (party == parties.end())
            party = parties.insert(parties.end(), FlightParty{call, {}});
        party->ranks.push_back(rank);
    }
    for (auto& party : parties)
        std::sort(party.ranks.begin(), party.ranks.end());
    std::stable_sort(parties.begin(), parties.end(),
                     [](const FlightParty& a, const FlightParty& b) {
                         return std::pair(b.ranks.size(), a.ranks.front()) <
                                std::pair(a.ranks.size(), b.ranks.front());
                     });
    return parties;
}

void find_difference(FlightGroup& group) {
    std::multimap<std::uint64_t, std::pair<int, const flight::RecordedCall*>> calls;
    for (const FlightMember& member : group.members)
        for (const flight::RecordedCall& call : member.group->calls)
            if (!flight::is_message(kind_of(call)))
                calls.emplace(call.sequence, std::pair(member.rank, &call));
    for (auto at = calls.begin(); at != calls.end(); at = calls.upper_bound(at->first)) {
        auto parties = parties_at(at->first, calls);
        if (parties.size() < 2)
            continue;
        group.differs_at = at->first;
        group.parties = std::move(parties);
        return;
    }
}

void find_stuck(FlightGroup& group) {
    for (const FlightMember& member : group.members)
        if (member.current != nullptr && (!group.stuck || member.current->sequence < *group.stuck))
            group.stuck = member.current->sequence;
    if (!group.stuck)
        return;
    for (const FlightMember& member : group.members)
        if (member.current != nullptr && member.current->sequence == *group.stuck)
            group.stuck_us = std::max(group.stuck_us, member.current->started_us >= 0
                                                          ? member.current->started_us
                                                          : member.current->enqueued_us);
}

void complete(FlightGroup& group, int most_places) {
    std::stable_sort(group.members.begin(), group.members.end(),
                     [](const FlightMember& a, const FlightMember& b) {
                         return std::pair(a.place, a.rank) < std::pair(b.place, b.rank);
                     });
    // A rank may claim any size; believe it as far as there are ranks that could be of it.
    const int places = group.size <= most_places ? group.size : 0;
    auto member = group.members.begin();
    for (int place = 0; place < places; ++place) {
        while (member != group.members.end() && member->place < place)
            ++member;
        if (member == group.members.end() || member->place != place)
            group.unknown_places.push_back(place);
    }
    group.all_finished = group.unknown_places.empty() ? UINT64_MAX : 0;
    for (const FlightMember& one : group.members)
        group.all_finished = std::min(group.all_finished, one.finished);
    find_stuck(group);
    find_difference(group);
}

bool waits_for_message(const FlightGroup& group) {
    return std::any_of(group.members.begin(), group.members.end(),
                       [](const FlightMember& member) { return member.message != nullptr; });
}

// Least is most telling.
auto rank_of(const FlightGroup& group) {
    return std::tuple(group.differs_at == 0, !group.stuck, !waits_for_message(group),
                      -group.stuck_us, -group.size);
}

}  // namespace

void drop_impossible_calls(std::vector<flight::RecordedRank>& ranks) {
    for (flight::RecordedRank& rank : ranks)
        for (flight::RecordedGroup& group : rank.groups)
            std::erase_if(group.calls, [](const flight::RecordedCall& call) {
                return call.kind >= flight::kKindNames.size() ||
                       call.op >= flight::kOpNames.size() ||
                       call.type >= flight::kTypeNames.size() ||
                       call.state < static_cast<int>(State::enqueued) ||
                       call.state > static_cast<int>(State::failed) || call.sequence == 0;
            });
}

FlightPicture draw_flight_picture(const std::vector<flight::RecordedRank>& ranks) {
    FlightPicture picture;
    std::map<std::uint64_t, FlightGroup> groups;
    std::map<std::string, std::vector<int>> without;
    for (const flight::RecordedRank& rank : ranks) {
        if (rank.groups.empty())
            without[rank.no_groups].push_back(rank.rank);
        for (const flight::RecordedGroup& recorded : rank.groups) {
            FlightGroup& group = groups[recorded.id];
            if (group.members.empty()) {
                group.id = recorded.id;
                group.name = recorded.name;
                group.backend = recorded.backend;
                group.size = recorded.size;
            }
            group.members.push_back(member_of(rank, recorded));
        }
    }
    for (auto& [id, group] : groups) {
        complete(group, 64 + 8 * static_cast<int>(ranks.size()));
        picture.groups.push_back(std::move(group));
    }
    std::stable_sort(
        picture.groups.begin(), picture.groups.end(),
        [](const FlightGroup& a, const FlightGroup& b) { return rank_of(a) < rank_of(b); });
    for (auto& [why, names] : without) {
        std::sort(names.begin(), names.end());
        picture.without.emplace_back(why, std::move(names));
    }
    return picture;
}

std::vector<const FlightMember*> members_behind(const FlightGroup& group) {
    std::vector<const FlightMember*> found;
    for (const FlightMember& member : group.members)
        if (group.stuck && member.entered < *group.stuck)
            found.push_back(&member);
    return found;
}

std::vector<int> ranks_in_calls(const FlightPicture& picture, std::chrono::milliseconds at_least) {
    const auto waits = [&](const flight::RecordedCall* call) {
        return call != nullptr && std::max(call->started_us, call->enqueued_us) >=
                                      std::chrono::microseconds(at_least).count();
    };
    std::vector<int> ranks;
    for (const FlightGroup& group : picture.groups)
        for (const FlightMember& member : group.members)
            if (!member.ended && (waits(member.current) || waits(member.message)))
                ranks.push_back(member.rank);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
}

std::vector<const FlightMember*> members_ahead(const FlightGroup& group) {
    std::vector<const FlightMember*> found;
    for (const FlightMember& member : group.members)
        if (group.stuck && member.finished >= *group.stuck)
            found.push_back(&member);
    return found;
}

}  // namespace autolaunch::launcher
