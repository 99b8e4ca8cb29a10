#include "hang_evidence/torch_recorder.hpp"

#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"
#include "hang_evidence/pickle.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace autolaunch::launcher {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 128;
constexpr std::size_t kMostGroups = 64;
constexpr int kMostJsonLevels = 64;

// A rank may name anything as it likes.
std::string shown(const std::string& name) {
    std::string text = name.substr(0, kLongestName);
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
    return text;
}

std::string text_of(const json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_string())
        return {};
    return shown(found->get<std::string>());
}

// In JSON some numbers are texts.
std::int64_t number_of(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end())
        return -1;
    if (found->is_number())
        return whole_number_if_any<std::int64_t>(*found).value_or(-1);
    try {
        return found->is_string() ? std::stoll(found->get<std::string>()) : -1;
    } catch (const std::exception&) {
        return -1;
    }
}

// "[1024, 8] Float"
std::string shape_of(const json& entry) {
    const auto sizes = entry.find("input_sizes");
    std::string shape;
    if (sizes != entry.end() && sizes->is_array() && !sizes->empty())
        shape = sizes->front()
                    .dump(-1, ' ', false, json::error_handler_t::replace)
                    .substr(0, kLongestName);
    const auto types = entry.find("input_dtypes");
    if (types != entry.end() && types->is_array() && !types->empty() && types->front().is_string())
        shape += " " + shown(types->front().get<std::string>());
    return shape;
}

// The innermost frame that is not PyTorch's own.
std::string place_of(const json& entry) {
    const auto frames = entry.find("frames");
    if (frames == entry.end() || !frames->is_array())
        return {};
    for (const json& frame : *frames) {
        const std::string file = text_of(frame, "filename");
        if (file.empty() || file.find("/torch/") != std::string::npos)
            continue;
        return text_of(frame, "name") + " (" + file.substr(file.rfind('/') + 1) + ":" +
               std::to_string(number_of(frame, "line")) + ")";
    }
    return {};
}

std::string group_name(const json& entry) {
    const auto group = entry.find("process_group");  // its name and its description
    if (group == entry.end() || !group->is_array() || group->size() != 2)
        return {};
    const json named{{"name", (*group)[0]}, {"description", (*group)[1]}};
    const std::string description = text_of(named, "description");
    const std::string name = text_of(named, "name");
    return description.empty() || description == "undefined" ? "group " + name : description;
}

json parse(std::string_view bytes) {
    if (!bytes.starts_with('{'))
        return read_pickle(bytes);
    if (!nests_at_most(bytes, kMostJsonLevels))
        throw Error(ErrorCode::corrupt, "the dump is nested too deeply");
    json all = json::parse(bytes, nullptr, false);
    if (all.is_discarded())
        throw Error(ErrorCode::corrupt, "the dump is no JSON");
    return all;
}

}  // namespace

std::vector<TorchGroup> read_torch_dump(std::string_view bytes) {
    const json all = parse(bytes);
    if (!all.is_object() || !text_of(all, "version").starts_with("2."))
        throw Error(ErrorCode::corrupt, "the dump is of no version that is known (2.x)");
    std::map<std::string, TorchGroup> groups;  // by pg_id
    if (const auto status = all.find("pg_status"); status != all.end() && status->is_object())
        for (const auto& [id, now] : status->items())
            if (now.is_object() && groups.size() < kMostGroups)
                groups[id] = {.name = {},
                              .enqueued = number_of(now, "last_enqueued_collective"),
                              .started = number_of(now, "last_started_collective"),
                              .completed = number_of(now, "last_completed_collective"),
                              .oldest_open = {},
                              .place = {}};
    const auto entries = all.find("entries");
    if (entries != all.end() && entries->is_array())
        for (const json& entry : *entries) {
            if (!entry.is_object())
                continue;
            const auto found = groups.find(std::to_string(number_of(entry, "pg_id")));
            if (found == groups.end())
                continue;
            TorchGroup& group = found->second;
            group.name = group_name(entry);
            // gloo leaves the state of all at "scheduled".
            const bool is_over = text_of(entry, "state") == "completed" ||
                                 number_of(entry, "collective_seq_id") <= group.completed;
            if (!group.oldest_open.empty() || is_over)
                continue;
            group.oldest_open = text_of(entry, "profiling_name") + " #" +
                                std::to_string(number_of(entry, "collective_seq_id")) + " of " +
                                shape_of(entry) + ", " + text_of(entry, "state");
            group.place = place_of(entry);
        }
    std::vector<TorchGroup> all_groups;
    for (auto& [id, group] : groups) {
        if (group.name.empty())
            group.name = "group " + shown(id);
        all_groups.push_back(std::move(group));
    }
    return all_groups;
}

std::string describe_torch_groups(const std::vector<TorchGroup>& groups) {
    std::string text;
    for (const TorchGroup& group : groups) {
        text += group.name + ": collectives enqueued up to #" + std::to_string(group.enqueued) +
                ", started up to #" + std::to_string(group.started) + ", completed up to #" +
                std::to_string(group.completed);
        if (!group.oldest_open.empty())
            text += "; the oldest that is open: " + group.oldest_open;
        if (!group.place.empty())
            text += ", called in " + group.place;
        text += '\n';
    }
    return text;
}

}  // namespace autolaunch::launcher
