#include "submission/data_nodes.hpp"

#include "allocation/hostlist.hpp"
#include "base/dotted_version.hpp"
#include "base/file_system.hpp"
#include "base/json_nesting.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRuns = 20, kMostNodes = 1024, kMostFile = std::size_t{16} << 20;
constexpr int kRunDeepest = 32;

nlohmann::json parse(std::string_view text) {
    return nests_at_most(text, kRunDeepest) ? nlohmann::json::parse(text, nullptr, false)
                                            : nlohmann::json();
}

std::string text_in(const nlohmann::json& json, const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found == json.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

/// As plans have it: a path from the root, or an address without what signs it.
std::string planned_source(const std::string& from) {
    return from.find("://") == from.npos ? absolute_path(from).lexically_normal().string()
                                         : from.substr(0, from.find('?'));
}

bool is_same(const StageInSpec& wanted, const nlohmann::json& item) {
    return text_in(item, "name") == wanted.name && text_in(item, "verify") == wanted.verify &&
           text_in(item, "unpack") == wanted.unpack &&
           planned_source(text_in(item, "from")) == planned_source(wanted.from);
}

bool has_items(const nlohmann::json& plan, const StorageSpec& storage) {
    const auto staging = plan.is_object() ? plan.find("staging") : plan.end();
    if (staging == plan.end() || !staging->is_object() || !staging->contains("items"))
        return false;
    const nlohmann::json& items = (*staging)["items"];
    return std::all_of(storage.stage_in.begin(), storage.stage_in.end(), [&](const auto& wanted) {
        return std::any_of(items.begin(), items.end(),
                           [&](const nlohmann::json& item) { return is_same(wanted, item); });
    });
}

std::set<std::string> staged_names(std::string_view events) {
    std::set<std::string> names;
    for (const std::string& line : split(events, '\n')) {
        if (line.find("data_staged") == std::string::npos)
            continue;
        const nlohmann::json event = parse(line);
        if (text_in(event, "event") == "data_staged")
            names.insert(text_in(event, "name"));
    }
    return names;
}

std::string text_of(const fs::path& file) {
    try {
        return read_regular_file(file, kMostFile);
    } catch (const Error&) {
        return {};  // a hint
    }
}

std::vector<fs::path> newest_runs(const fs::path& folder) {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code gap;  // there was none
    for (const fs::path& run : list_folder(folder, gap)) {
        std::error_code none;
        const auto time = fs::last_write_time(run / "plan.json", none);
        if (!none)
            found.emplace_back(time, run);
    }
    std::sort(found.rbegin(), found.rend());
    found.resize(std::min(found.size(), kMostRuns));
    std::vector<fs::path> runs;
    for (auto& [time, run] : found)
        runs.push_back(std::move(run));
    return runs;
}

/// "events.node-3.jsonl"
std::string events_file(int node) {
    return node == 0 ? "events.jsonl" : "events.node-" + std::to_string(node) + ".jsonl";
}

/// Or it would be a pattern, or an option, to Slurm.
bool is_node_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxHostName && name.front() != '-' &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
           });
}

std::vector<std::string> names_in(const nlohmann::json& plan) {
    std::vector<std::string> names;
    const auto nodes = plan.is_object() ? plan.find("nodes") : plan.end();
    if (nodes == plan.end() || !nodes->is_object() || !nodes->contains("names"))
        return names;
    for (const nlohmann::json& name : (*nodes)["names"])
        names.push_back(name.is_string() ? name.get<std::string>() : "");
    names.resize(std::min(names.size(), kMostNodes));
    return names;
}

}  // namespace

std::vector<std::string> nodes_with_data(std::string_view plan,
                                         const std::function<std::string(int node)>& events,
                                         const StorageSpec& storage) {
    std::vector<std::string> nodes;
    const nlohmann::json planned = parse(plan);
    if (storage.stage_in.empty() || !has_items(planned, storage))
        return nodes;
    const std::vector<std::string> names = names_in(planned);
    for (std::size_t at = 0; at < names.size(); ++at) {
        if (!is_node_name(names[at]))
            continue;
        const auto staged = staged_names(events(static_cast<int>(at)));
        if (std::all_of(storage.stage_in.begin(), storage.stage_in.end(),
                        [&](const auto& item) { return staged.contains(item.name); }))
            nodes.push_back(names[at]);
    }
    return nodes;
}

std::vector<std::string> nodes_with_data(const fs::path& runs, const StorageSpec& storage) {
    std::vector<std::string> nodes;
    if (storage.stage_in.empty())
        return nodes;
    for (const fs::path& run : newest_runs(runs)) {
        const auto events = [&run](int node) { return text_of(run / events_file(node)); };
        for (std::string& name : nodes_with_data(text_of(run / "plan.json"), events, storage))
            if (std::find(nodes.begin(), nodes.end(), name) == nodes.end())
                nodes.push_back(std::move(name));
    }
    return nodes;
}

std::vector<std::string> features_question(const std::vector<std::string>& nodes) {
    return {"sinfo", "--noheader", "--Node", "--format=%N|%f", "--nodes=" + join(nodes, ",")};
}

std::string preferred_features(const std::vector<std::string>& nodes, std::string_view answer,
                               const std::string& slurm_version) {
    constexpr long long kFirstYear = 22, kFirstMonth = 5;
    if (dotted_numbers(slurm_version) < std::vector{kFirstYear, kFirstMonth})
        return {};
    std::set<std::string> named;
    for (const std::string& line : split(answer, '\n')) {
        const auto parts = split(line, '|');
        if (parts.size() != 2)
            continue;
        const auto features = split(parts[1], ',');
        if (std::find(features.begin(), features.end(), parts[0]) != features.end())
            named.insert(parts[0]);
    }
    const bool all = std::all_of(nodes.begin(), nodes.end(),
                                 [&](const auto& node) { return named.contains(node); });
    return all ? join(nodes, "|") : std::string();
}

}  // namespace autolaunch::launcher
