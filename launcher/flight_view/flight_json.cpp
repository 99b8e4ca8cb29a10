#include "flight_view/flight_json.hpp"

#include "base/hash.hpp"
#include "flight/flight_ring.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kStateNames = {"none", "enqueued", "started", "finished",
                                                         "failed"};

// The head writes it between two heartbeats, for ten thousands of ranks, too.
constexpr std::size_t kMostCalls = 64 << 10, kMostCallsEach = 64;

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

Json to_json(const FlightMember& member, std::size_t newest) {
    Json json = {{"rank", member.rank}, {"place", member.place}};
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
    json["calls"] = calls_of(member, newest);
    return json;
}

Json to_json(const FlightGroup& group, std::size_t newest) {
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
    json["members"] = Json::array();
    for (const FlightMember& member : group.members)
        json["members"].push_back(to_json(member, newest));
    return json;
}

}  // namespace

std::string flight_json(const FlightPicture& picture, const std::vector<std::string>& lines,
                        int generation, const std::string& reason,
                        std::chrono::system_clock::time_point at) {
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
    Json json = {{"format", "autolaunch flight 1"},
                 {"generation", generation},
                 {"reason", reason},
                 {"unix_seconds", static_cast<double>(ms) / 1000},
                 {"lines", lines}};
    std::size_t members = 1;
    for (const FlightGroup& group : picture.groups)
        members += group.members.size();
    const std::size_t newest = std::clamp<std::size_t>(kMostCalls / members, 2, kMostCallsEach);
    json["groups"] = Json::array();
    for (const FlightGroup& group : picture.groups)
        json["groups"].push_back(to_json(group, newest));
    json["without"] = Json::array();
    for (const auto& [why, ranks] : picture.without)
        json["without"].push_back({{"why", why}, {"ranks", ranks}});
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace autolaunch::launcher
