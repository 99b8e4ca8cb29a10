#include "flight_view/flight_json.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "flight/flight_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kStateNames = {"none", "enqueued", "started", "finished",
                                                         "failed"};

// The head writes it between two heartbeats, for ten thousands of ranks, too.
constexpr std::size_t kMostCalls = 16 << 10, kMostCallsEach = 64;
constexpr std::size_t kFoldFrom = 64;  // members of all groups: fewer are written one by one
constexpr std::size_t kMostWhole =
    1024;  // of many, with their calls; the most telling groups first

/// What of a file is written already.
struct Room {
    std::size_t newest = kMostCallsEach;  ///< calls of a member
    std::size_t whole = kMostWhole;       ///< members that may still be written with their calls
    bool fold = false;
};

void set_age(Json& json, const char* name, std::int64_t us) {
    if (us >= 0)
        json[name] = static_cast<double>(us) / 1e6;
}

Json to_json(const flight::RecordedCall& call) {
    const auto kind = static_cast<flight::Kind>(call.kind);
    Json json = {{"sequence", call.sequence}, {"kind", flight::kKindNames.at(call.kind)}};
    if (flight::reduces(kind))
        json["op"] = flight::kOpNames.at(call.op);
    if (kind <= flight::Kind::recv)
        json["type"] = flight::kTypeNames.at(call.type);
    if (flight::has_root(kind))
        json["root"] = call.root;
    if (flight::is_message(kind))
        json["peer"] = call.root;
    json["bytes"] = call.bytes;
    if (!call.label.empty())
        json["label"] = call.label;
    json["state"] = kStateNames.at(call.state);
    if (call.on_device)
        json["on_device"] = true;
    set_age(json, "enqueued_seconds_ago", call.enqueued_us);
    set_age(json, "started_seconds_ago", call.started_us);
    set_age(json, "ended_seconds_ago", call.finished_us);
    return json;
}

// The newest, and the one that the rank is in.
Json calls_of(const FlightMember& member, std::size_t newest) {
    Json json = Json::array();
    const auto& calls = member.group->calls;
    const std::size_t first = calls.size() - std::min(newest, calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i)
        if (i >= first || &calls[i] == member.current)
            json.push_back(to_json(calls[i]));
    return json;
}

// But for ages, what the file has of it.
Json state_of(const FlightMember& member) {
    Json json;
    json["process_ended"] = member.ended;
    json["in_use"] = member.in_use;
    json["entered"] = member.entered;
    json["finished"] = member.finished;
    if (member.current != nullptr)
        json["in"] = member.current->sequence;
    if (member.group->lost > 0)
        json["not_recorded"] = member.group->lost;
    if (member.group->torn > 0)
        json["not_readable"] = member.group->torn;
    return json;
}

void add_calls(Json& json, const FlightMember& member, Room& room) {
    if (room.fold && room.whole == 0) {
        json["calls_left_out"] = true;
        return;
    }
    room.whole -= room.fold ? 1 : 0;
    json["calls"] = calls_of(member, room.newest);
}

Json to_json(const FlightMember& member, Room& room) {
    Json json = {{"rank", member.rank}, {"place", member.place}};
    json.update(state_of(member));
    add_calls(json, member, room);
    return json;
}

// Equal for members that did the same: where they are, and the calls that lead there. What each has
// of its own is left out: ages, sizes of all_to_all.
std::string likeness(const FlightMember& member, std::size_t newest) {
    const auto& calls = member.group->calls;
    std::string text = state_of(member).dump();
    for (std::size_t at = calls.size() - std::min(newest, calls.size()); at < calls.size(); ++at) {
        const flight::RecordedCall& call = calls[at];
        const bool own_bytes = static_cast<flight::Kind>(call.kind) == flight::Kind::all_to_all ||
                               static_cast<flight::Kind>(call.kind) == flight::Kind::split;
        text += fmt::format(" {},{},{},{},{},{},{},{},{}", call.sequence, call.kind, call.op,
                            call.type, call.state, call.root, own_bytes ? 0 : call.bytes,
                            call.on_device, call.label);
    }
    return text;
}

// How long they have been in it: the last and the first that entered.
void add_waits(Json& json, const std::vector<const FlightMember*>& alike) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = -1;
    for (const FlightMember* member : alike)
        if (const auto* in = member->current; in != nullptr) {
            const std::int64_t age = std::max(in->started_us, in->enqueued_us);
            least = std::min(least, age);
            most = std::max(most, age);
        }
    if (most >= 0)
        json["in_for_seconds"] = {static_cast<double>(least) / 1e6,
                                  static_cast<double>(most) / 1e6};
}

Json fold(const std::vector<const FlightMember*>& alike, Room& room) {
    std::vector<int> ranks;
    for (const FlightMember* member : alike)
        ranks.push_back(member->rank);
    std::sort(ranks.begin(), ranks.end());
    Json json = {{"ranks", format_list(ranks)}, {"count", ranks.size()}};
    json.update(state_of(*alike.front()));
    add_waits(json, alike);
    json["calls_of"] = alike.front()->rank;
    add_calls(json, *alike.front(), room);
    return json;
}

// The odd ones whole, the like ones once.
void add_members(Json& json, const FlightGroup& group, Room& room) {
    constexpr std::size_t kFew = 3;
    std::map<std::string, std::vector<const FlightMember*>> classes;
    if (room.fold)
        for (const FlightMember& member : group.members)
            classes[likeness(member, room.newest)].push_back(&member);
    std::vector<const std::vector<const FlightMember*>*> by_size;
    for (const auto& [like, alike] : classes)
        by_size.push_back(&alike);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [](const auto* a, const auto* b) { return a->size() < b->size(); });
    json["members"] = Json::array();
    if (!room.fold)
        for (const FlightMember& member : group.members)
            json["members"].push_back(to_json(member, room));
    Json folded = Json::array();
    for (const auto* alike : by_size)
        if (alike->size() >= kFew)
            folded.push_back(fold(*alike, room));
        else
            for (const FlightMember* member : *alike)
                json["members"].push_back(to_json(*member, room));
    if (!folded.empty())
        json["folded"] = std::move(folded);
}

Json to_json(const FlightGroup& group, Room& room) {
    Json json = {{"name", group.name},
                 {"id", hex64(group.id)},
                 {"backend", group.backend},
                 {"size", group.size},
                 {"all_finished", group.all_finished}};
    if (group.stuck) {
        json["stuck_in"] = *group.stuck;
        set_age(json, "stuck_seconds", group.stuck_us);
        json["behind"] = Json::array();
        for (const FlightMember* member : members_behind(group))
            json["behind"].push_back(member->rank);
        json["ahead"] = Json::array();
        for (const FlightMember* member : members_ahead(group))
            json["ahead"].push_back(member->rank);
    }
    if (!group.unknown_places.empty())
        json["unknown_places"] = group.unknown_places;
    if (group.differs_at != 0) {
        json["differs_at"] = group.differs_at;
        json["parties"] = Json::array();
        for (const FlightParty& party : group.parties)
            json["parties"].push_back({{"ranks", party.ranks}, {"call", to_json(*party.call)}});
    }
    add_members(json, group, room);
    return json;
}

}  // namespace

std::string flight_json(const FlightPicture& picture, const std::vector<std::string>& lines,
                        int generation, const std::string& reason,
                        std::chrono::system_clock::time_point at) {
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
    Json json = {{"format", "autolaunch flight 2"},
                 {"generation", generation},
                 {"reason", reason},
                 {"unix_seconds", static_cast<double>(ms) / 1000},
                 {"lines", lines}};
    std::size_t members = 1;
    for (const FlightGroup& group : picture.groups)
        members += group.members.size();
    Room room;
    room.fold = members > kFoldFrom;
    room.newest =
        std::clamp<std::size_t>(kMostCalls / std::min(members, kMostWhole), 2, kMostCallsEach);
    json["groups"] = Json::array();
    for (const FlightGroup& group : picture.groups)
        json["groups"].push_back(to_json(group, room));
    json["without"] = Json::array();
    for (const auto& [why, ranks] : picture.without)
        json["without"].push_back({{"why", why}, {"ranks", ranks}});
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace autolaunch::launcher
