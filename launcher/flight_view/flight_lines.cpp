#include "flight_view/flight_lines.hpp"

#include "base/text.hpp"
#include "flight/flight_reader.hpp"
#include "flight/flight_ring.hpp"
#include "flight_view/deadlock.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace autolaunch::launcher {

namespace {

using flight::Kind;
using flight::RecordedCall;
using flight::State;

constexpr std::size_t kLongestList = 60;   // bytes of "0-2,4-7"
constexpr std::size_t kNamedParties = 3;   // of a difference
constexpr std::size_t kNamedLaggards = 2;  // groups of ranks that are behind
constexpr std::size_t kNamedWithout = 1;

std::string time_of(std::int64_t us) { return flight::name_time(us < 0 ? -1 : us * 1000); }

std::string name_ranks(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    std::string list = format_list(ranks);
    if (list.size() > kLongestList) {
        list.resize(list.rfind(',', kLongestList));
        list += ",… (" + std::to_string(ranks.size()) + " ranks)";
    }
    return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

std::string name(const flight::RecordedCall& call) {
    return flight::name_call(static_cast<Kind>(call.kind), call.sequence, call.bytes, call.label);
}

// With all in which calls can differ.
std::string full_name(const flight::RecordedCall& call) {
    const auto kind = static_cast<Kind>(call.kind);
    std::string details;
    if (kind <= Kind::recv)
        details += flight::kTypeNames.at(call.type);
    if (flight::reduces(kind))
        details += ", " + std::string(flight::kOpNames.at(call.op));
    if (flight::has_root(kind))
        details += ", root " + std::to_string(call.root);
    if (!call.label.empty())
        details += (details.empty() ? "" : ", ") + call.label;
    return flight::name_call(kind, call.sequence, call.bytes, details);
}

std::string prefix(const FlightGroup& group) {
    return group.name == "world" ? "" : group.name + ": ";
}

std::int64_t age(const flight::RecordedCall& call) {
    return call.started_us >= 0 ? call.started_us : call.enqueued_us;
}

std::string difference(const FlightGroup& group) {
    std::string text = prefix(group);
    for (std::size_t i = 0; i < std::min(kNamedParties, group.parties.size()); ++i) {
        const FlightParty& party = group.parties[i];
        const bool one = party.ranks.size() == 1;
        text += (i == 0   ? ""
                 : i == 1 ? ", but "
                          : ", ") +
                name_ranks(party.ranks) + (one ? " calls " : " call ") + full_name(*party.call);
    }
    if (group.parties.size() > kNamedParties)
        text += ", and " + std::to_string(group.parties.size() - kNamedParties) + " more kinds";
    return text;
}

// Those that have entered it: some wait, of some the process is gone, for some it failed.
std::string in_it(const FlightGroup& group) {
    std::vector<int> waiting, queued, gone, failed;
    const flight::RecordedCall* call = nullptr;
    std::int64_t waited = -1, failed_after = -1;
    for (const FlightMember& member : group.members) {
        if (member.current == nullptr || member.current->sequence != *group.stuck)
            continue;
        if (call == nullptr)
            call = member.current;
        const auto state = static_cast<State>(member.current->state);
        if (state == State::failed) {
            failed.push_back(member.rank);
            failed_after =
                std::max(failed_after, age(*member.current) - member.current->finished_us);
        } else if (member.ended) {
            gone.push_back(member.rank);
        } else {
            (state == State::started ? waiting : queued).push_back(member.rank);
            waited = std::max(waited, age(*member.current));
        }
    }
    std::string text;
    const auto add = [&](const std::vector<int>& ranks, const std::string& one,
                         const std::string& several, const std::string& rest) {
        if (ranks.empty())
            return;
        const std::string what = text.empty() ? name(*call) : "it";
        text += (text.empty() ? "" : ", ") + name_ranks(ranks) +
                (ranks.size() == 1 ? one : several) + what + rest;
    };
    add(waiting, " waits in ", " wait in ", " for " + time_of(waited));
    add(queued, " has queued ", " have queued ", "");
    add(failed, " failed in ", " failed in ", " after " + time_of(failed_after));
    add(gone, " ended within ", " ended within ", "");
    return prefix(group) + text;
}

std::string elsewhere(const FlightPicture& picture, const FlightGroup& here, int rank) {
    for (const FlightGroup& group : picture.groups)
        for (const FlightMember& member : group.members) {
            if (member.rank != rank)
                continue;
            const flight::RecordedCall* const open =
                &group != &here && member.current != nullptr ? member.current : member.message;
            if (open == nullptr || static_cast<State>(open->state) == State::failed)
                continue;
            return "is in " + name(*open) + (&group == &here ? "" : " of " + group.name) + " for " +
                   time_of(age(*open));
        }
    return {};
}

std::string position(const FlightPicture& picture, const FlightGroup& group,
                     const FlightMember& member) {
    const std::string other = member.ended ? "" : elsewhere(picture, group, member.rank);
    if (!other.empty())
        return other;
    if (member.last == nullptr)
        return "had entered none before";
    return "was last in " + name(*member.last) + ", until " + time_of(member.last->finished_us) +
           " ago";
}

// "rank 3 has not entered it: …", alike ranks together.
std::string behind(const FlightPicture& picture, const FlightGroup& group) {
    struct Laggards {
        std::vector<int> ranks;
        const FlightMember* first = nullptr;
    };
    std::map<std::pair<bool, std::uint64_t>, Laggards> laggards;
    for (const FlightMember* member : members_behind(group)) {
        Laggards& same = laggards[{!member->ended, member->finished}];
        if (same.first == nullptr)
            same.first = member;
        same.ranks.push_back(member->rank);
    }
    std::string text;
    std::size_t named = 0;
    for (const auto& [key, same] : laggards) {
        if (named++ == kNamedLaggards)
            break;
        const bool one = same.ranks.size() == 1;
        text += (text.empty() ? prefix(group) : "; ") + name_ranks(same.ranks);
        if (same.first->ended)
            text += ", which ended,";
        text += (one ? " has not entered it: it "
                     : " have not entered it: e.g. rank " + std::to_string(same.first->rank) + " ");
        text += position(picture, group, *same.first);
    }
    if (laggards.size() > kNamedLaggards)
        text += "; and others";
    std::vector<int> places = group.unknown_places;
    if (!places.empty() && group.name == "world")
        text += (text.empty() ? prefix(group) : "; ") + name_ranks(places) +
                (places.size() == 1 ? " has" : " have") + " no recorder";
    return text;
}

// "ranks 0,2 are past it, in all_gather #413 for 2 s": where the first of them is.
std::string ahead(const FlightGroup& group) {
    const auto members = members_ahead(group);
    if (members.empty())
        return {};
    std::vector<int> ranks;
    const flight::RecordedCall* now = nullptr;
    bool alike = true;
    for (const FlightMember* member : members) {
        ranks.push_back(member->rank);
        alike = alike && (member->current == nullptr) == (members[0]->current == nullptr) &&
                (member->current == nullptr ||
                 member->current->sequence == members[0]->current->sequence);
        if (now == nullptr && !member->ended)
            now = member->current;
    }
    std::string text =
        prefix(group) + name_ranks(ranks) + (ranks.size() == 1 ? " is" : " are") + " past it";
    if (now == nullptr)
        return text;
    return text + (alike ? ", in " : ", one in ") + name(*now) + " for " + time_of(age(*now));
}

std::string partner_of(const FlightGroup& group, const flight::RecordedCall& call) {
    for (const FlightMember& member : group.members)
        if (member.place == call.root)
            return "rank " + std::to_string(member.rank);
    return "place " + std::to_string(call.root);
}

void add_messages(const FlightGroup& group, const std::function<bool(std::string)>& add) {
    for (const FlightMember& member : group.members) {
        if (member.message == nullptr)
            continue;
        const flight::RecordedCall& call = *member.message;
        const bool failed = static_cast<State>(call.state) == State::failed;
        const std::string way = static_cast<Kind>(call.kind) == Kind::send ? " to " : " from ";
        if (!add(prefix(group) + "rank " + std::to_string(member.rank) +
                 (failed         ? " failed in "
                  : member.ended ? " ended within "
                                 : " waits in ") +
                 name(call) + way + partner_of(group, call) +
                 (failed || member.ended ? "" : " for " + time_of(age(call)))))
            return;
    }
}

std::string deadlock(const FlightPicture& picture) {
    const Deadlock found = find_deadlock(picture);
    if (found.one == nullptr)
        return {};
    const bool one = found.in_one.size() == 1;
    return "a deadlock of two communicators: " + name_ranks(found.in_one) +
           (one ? " waits in " : " wait in ") + found.one->name + " for " +
           name_ranks(found.in_other) +
           (found.in_other.size() == 1 ? ", which waits in " : ", which wait in ") +
           found.other->name + " for " + (one ? "it" : "them");
}

std::string quiet(const FlightPicture& picture) {
    const FlightMember* newest = nullptr;
    for (const FlightGroup& group : picture.groups)
        for (const FlightMember& member : group.members)
            if (member.last != nullptr &&
                (newest == nullptr || member.last->finished_us < newest->last->finished_us))
                newest = &member;
    if (newest == nullptr)
        return "no rank has called a collective";
    return "no rank is in a collective; the last was " + name(*newest->last) + " of " +
           newest->group->name + ", until " + time_of(newest->last->finished_us) + " ago";
}

}  // namespace

std::vector<std::string> flight_lines(const FlightPicture& picture, std::size_t most_lines) {
    std::vector<std::string> lines;
    const std::function<bool(std::string)> add = [&](std::string line) {
        if (line.empty())
            return true;
        if (lines.size() >= most_lines)
            return false;
        lines.push_back(std::move(line));
        return true;
    };
    add(deadlock(picture));
    for (const FlightGroup& group : picture.groups) {
        if (group.differs_at != 0)
            add(difference(group));
        if (group.stuck && group.differs_at != *group.stuck)
            add(in_it(group));
        if (group.stuck) {
            add(behind(picture, group));
            add(ahead(group));
        }
        add_messages(group, add);
    }
    if (lines.empty() && !picture.groups.empty())
        add(quiet(picture));
    for (std::size_t i = 0; i < std::min(kNamedWithout, picture.without.size()); ++i) {
        const auto& [why, ranks] = picture.without[i];
        add("nothing is known of " + name_ranks(ranks) + ": " + why);
    }
    return lines;
}

FlightCulprit flight_culprit(const FlightPicture& picture, int failed_rank) {
    for (const FlightGroup& group : picture.groups) {
        if (!group.stuck)
            continue;
        const auto gave_up = std::find_if(
            group.members.begin(), group.members.end(), [&](const FlightMember& member) {
                return member.rank == failed_rank && member.current != nullptr &&
                       member.current->sequence == *group.stuck &&
                       static_cast<State>(member.current->state) == State::failed;
            });
        std::vector<int> missing;
        for (const FlightMember* member : members_behind(group))
            missing.push_back(member->rank);
        if (gave_up == group.members.end() || missing.empty())
            continue;
        return {prefix(group) + name_ranks(missing) +
                    (missing.size() == 1 ? " has not entered " : " have not entered ") +
                    name(*gave_up->current),
                missing};
    }
    return {};
}

}  // namespace autolaunch::launcher
