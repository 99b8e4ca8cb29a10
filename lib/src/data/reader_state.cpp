#include "data/reader_state.hpp"

#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace autolaunch::data {

namespace {

using nlohmann::json;

constexpr char kFormat[] = "autolaunch tokens";
constexpr int kVersion = 1, kVersionOfComing = 2;
constexpr int kLevels = 3;  // the object, the list of files, a file

constexpr std::pair<Order, const char*> kOrders[] = {{Order::sequential, "sequential"},
                                                     {Order::shuffled, "shuffled"}};
constexpr std::pair<Boundary, const char*> kBoundaries[] = {
    {Boundary::join, "join"}, {Boundary::separate, "separate"}, {Boundary::drop_tail, "drop_tail"}};

template <class Value, std::size_t N>
std::string name_of(const std::pair<Value, const char*> (&names)[N], Value value) {
    for (const auto& [one, name] : names)
        if (one == value)
            return name;
    return {};
}

[[noreturn]] void damaged(const std::string& why) {
    throw Error(ErrorCode::corrupt, "this is no state of a reader of tokens: " + why,
                "give restore() what state() returned");
}

template <class Value, std::size_t N>
Value named(const std::pair<Value, const char*> (&names)[N], const json& text) {
    for (const auto& [value, name] : names)
        if (text == name)
            return value;
    damaged(text.dump(-1, ' ', false, json::error_handler_t::replace) + " is not known");
}

std::int64_t at_least(std::int64_t least, const json& object, const char* key) {
    const auto number = whole_number<std::int64_t>(object.at(key));
    if (number < least)
        damaged(std::string(key) + " is " + std::to_string(number));
    return number;
}

std::uint64_t beginning_from(const std::string& digits) {
    std::uint8_t bytes[8] = {};
    if (!parse_hex(digits, bytes))
        damaged("begin is " + digits);
    std::uint64_t value = 0;
    for (const std::uint8_t byte : bytes)
        value = value << 8 | byte;
    return value;
}

void read_files(const json& files, bool some_come, ReaderState& state) {
    if (!files.is_array() || files.empty())
        damaged("it lists no files");
    for (const json& file : files) {
        TokenShard shard;
        shard.name = file.at("name").get<std::string>();
        shard.bytes = whole_number<std::uint64_t>(file.at("bytes"));
        if (shard.name.empty() || shard.name.find('\0') != shard.name.npos)
            damaged("a file has no name");
        if (!state.shards.empty() && !(state.shards.back().name < shard.name))
            damaged("its files are not in order");
        state.shards.push_back(std::move(shard));
        const auto begin = file.at("begin").get<std::string>();
        state.beginnings.push_back(
            begin.empty() && some_come ? std::nullopt : std::optional(beginning_from(begin)));
    }
}

ReaderState read(const json& object) {
    if (!object.is_object() || object.value("format", json()) != kFormat)
        damaged(std::string("its format is not \"") + kFormat + "\"");
    const auto version = whole_number<std::int64_t>(object.at("version"));
    if (version != kVersion && version != kVersionOfComing)
        throw Error(ErrorCode::unsupported, "this state of a reader of tokens is of version " +
                                                std::to_string(version) + ", and only " +
                                                std::to_string(kVersion) + " and " +
                                                std::to_string(kVersionOfComing) + " are known");
    ReaderState state;
    state.epoch = at_least(0, object, "epoch");
    state.row = at_least(0, object, "row");
    state.length = at_least(1, object, "length");
    state.global_batch = at_least(1, object, "global_batch");
    state.order = named(kOrders, object.at("order"));
    state.seed = whole_number<std::uint64_t>(object.at("seed"));
    state.boundary = named(kBoundaries, object.at("boundary"));
    read_files(object.at("files"), version == kVersionOfComing, state);
    state.digest = digest_of(state.shards, state.beginnings);
    if (object.at("digest") != hex128(state.digest))
        damaged("its digest is not that of its files");
    return state;
}

[[noreturn]] void differs(const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::mismatch, "the reader cannot go on from this state: " + what, hint);
}

void require_same(const std::string& name, const std::string& then, const std::string& now) {
    if (then != now)
        differs(name + " was " + then + " and is " + now,
                "rows would have other tokens: set it as it was, or begin anew without restore()");
}

constexpr char kSameData[] =
    "bring the data back as it was, or begin anew with this one, without restore()";

// Of lists that differ, the first file that does. Of a beginning nobody may have seen, then or now.
void require_same_files(const ReaderState& then, const ReaderState& now) {
    const auto all = std::max(then.shards.size(), now.shards.size());
    for (std::size_t i = 0; i < all; ++i) {
        if (i >= now.shards.size() ||
            (i < then.shards.size() && then.shards[i].name < now.shards[i].name))
            differs(then.shards[i].name + " is missing", kSameData);
        if (i >= then.shards.size() || now.shards[i].name < then.shards[i].name)
            differs(now.shards[i].name + " is new", kSameData);
        const std::string name = now.shards[i].name;
        if (then.shards[i].bytes != now.shards[i].bytes)
            differs(name + " had " + std::to_string(then.shards[i].bytes) + " bytes and has " +
                        std::to_string(now.shards[i].bytes),
                    kSameData);
        if (then.beginnings[i] && now.beginnings[i] && *then.beginnings[i] != *now.beginnings[i])
            differs(name + " begins with other bytes than it had", kSameData);
    }
}

}  // namespace

std::string to_text(const ReaderState& state) {
    json files = json::array();
    bool some_come = false;
    for (std::size_t i = 0; i < state.shards.size(); ++i)
        files.push_back({{"name", state.shards[i].name},
                         {"bytes", state.shards[i].bytes},
                         {"begin", state.beginnings[i] ? hex64(*state.beginnings[i]) : ""}}),
            some_come = some_come || !state.beginnings[i];
    const json object = {{"format", kFormat},
                         {"version", some_come ? kVersionOfComing : kVersion},
                         {"epoch", state.epoch},
                         {"row", state.row},
                         {"length", state.length},
                         {"global_batch", state.global_batch},
                         {"order", name_of(kOrders, state.order)},
                         {"seed", state.seed},
                         {"boundary", name_of(kBoundaries, state.boundary)},
                         {"digest", hex128(state.digest)},
                         {"files", std::move(files)}};
    try {
        return object.dump();
    } catch (const json::exception&) {
        throw Error(ErrorCode::invalid_argument, "the name of a file of the data is no UTF-8",
                    "give it another name: a reader's state has the names of all files");
    }
}

ReaderState reader_state_from(std::string_view text) {
    if (!nests_at_most(text, kLevels))
        damaged("it nests too deep");
    try {
        return read(json::parse(text));
    } catch (const json::exception& error) {
        damaged(error.what());
    }
}

void check_goes_on(const ReaderState& then, const ReaderState& now) {
    if (then.digest != now.digest)
        require_same_files(then, now);
    require_same("length", std::to_string(then.length), std::to_string(now.length));
    require_same("order", name_of(kOrders, then.order), name_of(kOrders, now.order));
    if (then.order == Order::shuffled)
        require_same("seed", std::to_string(then.seed), std::to_string(now.seed));
    require_same("boundary", name_of(kBoundaries, then.boundary),
                 name_of(kBoundaries, now.boundary));
    if (then.boundary == Boundary::drop_tail)
        require_same("global_batch", std::to_string(then.global_batch),
                     std::to_string(now.global_batch));
}

}  // namespace autolaunch::data
