#include "checkpoint/commit/node_catalog.hpp"

#include "base/hash.hpp"
#include "base/whole_number.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/storage/stale.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

bool is_there(Storage& storage, const fs::path& path) {
    try {
        again_if_stale([&] { return storage.open(path); });
        return true;
    } catch (const SystemError& error) {
        if (error.error_number() != ENOENT)
            throw;
        return false;
    }
}

struct FilesHere {
    std::set<std::size_t> whole = {};  // numbers in the manifest
    std::string damage = {};           // of the first one with another size
};

FilesHere files_here(Storage& storage, const fs::path& checkpoint, const Manifest& manifest) {
    const auto names = storage.list(checkpoint);
    FilesHere found;
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        const Manifest::File& file = manifest.files[i];
        if (!std::binary_search(names.begin(), names.end(), file.name))
            continue;
        const std::uint64_t bytes =
            again_if_stale([&] { return storage.open(checkpoint / file.name)->size(); });
        if (bytes == file.bytes)
            found.whole.insert(i);
        else if (found.damage.empty())
            found.damage = (checkpoint / file.name).string() + " has " + std::to_string(bytes) +
                           " bytes, not " + std::to_string(file.bytes);
    }
    return found;
}

// [first, last] of each run of numbers: a node's ranks, and so its files, follow one another.
nlohmann::json ranges_of(const std::set<std::size_t>& numbers) {
    nlohmann::json ranges = nlohmann::json::array();
    for (const std::size_t number : numbers) {
        if (!ranges.empty() && whole_number<std::size_t>(ranges.back().at(1)) + 1 == number)
            ranges.back().at(1) = number;
        else
            ranges.push_back({number, number});
    }
    return ranges;
}

std::set<std::size_t> numbers_of(const nlohmann::json& ranges) {
    std::set<std::size_t> numbers;
    for (const auto& range : ranges)
        for (std::size_t number = range.at(0); number <= whole_number<std::size_t>(range.at(1));
             ++number)
            numbers.insert(numbers.end(), number);
    return numbers;
}

nlohmann::json described(Storage& storage, const fs::path& directory, const Candidate& candidate,
                         std::span<const GenerationStart> starts) {
    nlohmann::json line = {{"name", candidate.name}, {"step", candidate.step}, {"hash", 0}};
    std::vector<UnusableCheckpoint> problems;
    try {
        const std::string text =
            read_whole(storage, directory / candidate.name / kManifestName, kMaxManifestBytes);
        const Manifest manifest = Manifest::parse(text);
        manifest.require_complete();
        if (manifest.step != candidate.step)
            throw Error(ErrorCode::corrupt,
                        "its manifest is of step " + std::to_string(manifest.step));
        if (auto late = why_late(candidate, manifest, starts)) {
            line["problems"] = json_of({std::move(*late)});
            return line;
        }
        const FilesHere files = files_here(storage, directory / candidate.name, manifest);
        line.update({{"hash", hash64(text.data(), text.size())},
                     {"count", manifest.files.size()},
                     {"files", ranges_of(files.whole)}});
        if (manifest.metric)
            line["metric"] = *manifest.metric;
        if (!files.damage.empty())
            problems.push_back({candidate.step, candidate.name, Unusable::damaged, files.damage});
    } catch (const Error& error) {
        problems.push_back(why_unusable(storage, directory, candidate, error));
    }
    line["problems"] = json_of(problems);
    return line;
}

std::string what_is_here(Storage& storage, const fs::path& directory,
                         std::optional<std::int64_t> step) {
    nlohmann::json all = nlohmann::json::array();
    const Listing listing = list_with_starts(storage, directory);
    for (const Candidate& candidate : listing.candidates)
        if (!step || candidate.step == *step)
            all.push_back(described(storage, directory, candidate, listing.starts));
    return json_text(all);
}

void add(std::vector<NodeCheckpoint>& found, const nlohmann::json& line, int leader) {
    const std::string name = line.at("name");
    const std::uint64_t hash = line.at("hash");
    auto same = std::find_if(found.begin(), found.end(), [&](const NodeCheckpoint& one) {
        return one.name == name && one.manifest_hash == hash;
    });
    if (same == found.end()) {
        NodeCheckpoint fresh{name, line.at("step"), hash};
        if (hash != 0)
            fresh.file_count = line.at("count");
        if (line.contains("metric"))
            fresh.metric = line.at("metric").get<double>();
        same = found.insert(found.end(), std::move(fresh));
    }
    if (hash != 0)
        same->files[leader] = numbers_of(line.at("files"));
    for (UnusableCheckpoint& problem : unusable_of(line.at("problems"))) {
        problem.reason = "on the node of rank " + std::to_string(leader) + ": " + problem.reason;
        same->problems.push_back(std::move(problem));
    }
}

std::vector<NodeCheckpoint> merged(const std::vector<std::string>& texts) {
    std::vector<NodeCheckpoint> found;
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
        if (!texts[rank].empty())
            for (const auto& line : parse_of_rank(texts[rank]))
                add(found, line, static_cast<int>(rank));
    std::stable_sort(found.begin(), found.end(),
                     [](const NodeCheckpoint& a, const NodeCheckpoint& b) {
                         if (a.step != b.step)
                             return a.step > b.step;
                         if (a.complete() != b.complete())
                             return a.complete();
                         return a.name.size() <
                                b.name.size();  // the one in place before the one it was to replace
                     });
    return found;
}

std::string text_of(const std::vector<NodeCheckpoint>& checkpoints) {
    nlohmann::json all = nlohmann::json::array();
    for (const NodeCheckpoint& one : checkpoints) {
        nlohmann::json files = nlohmann::json::array();
        for (const auto& [leader, held] : one.files)
            files.push_back({leader, ranges_of(held)});
        all.push_back({{"name", one.name},
                       {"step", one.step},
                       {"hash", one.manifest_hash},
                       {"count", one.file_count},
                       {"files", files},
                       {"problems", json_of(one.problems)}});
        if (one.metric)
            all.back()["metric"] = *one.metric;
    }
    return json_text(all);
}

std::vector<NodeCheckpoint> checkpoints_of(const std::string& text) {
    std::vector<NodeCheckpoint> checkpoints;
    for (const auto& line : parse_of_rank(text)) {
        NodeCheckpoint one{line.at("name"), line.at("step"), line.at("hash"), line.at("count")};
        if (line.contains("metric"))
            one.metric = line.at("metric").get<double>();
        for (const auto& held : line.at("files"))
            one.files.emplace(whole_number<int>(held.at(0)), numbers_of(held.at(1)));
        one.problems = unusable_of(line.at("problems"));
        checkpoints.push_back(std::move(one));
    }
    return checkpoints;
}

}  // namespace

std::vector<int> leaders_of_directories(Communicator& world, Storage& storage,
                                        const fs::path& directory) {
    const std::string drawn = broadcast_text(world, random_hex(8), 0);
    const auto token = [&](int rank) {
        return directory / (".rank-" + std::to_string(rank) + '-' + drawn);
    };
    together(world, [&] {
        storage.create_directories(directory);
        write_whole(storage, token(world.rank()), "");
    });
    std::int64_t leader = world.rank();
    together(world, [&] {
        for (int rank = 0; rank < leader; ++rank)
            if (is_there(storage, token(rank)))
                leader = rank;
    });
    std::vector<std::int64_t> leaders(static_cast<std::size_t>(world.size()));
    world.all_gather(&leader, leaders.data(), 1, DataType::i64).wait();
    storage.remove_all(token(world.rank()));
    return {leaders.begin(), leaders.end()};
}

bool NodeCheckpoint::complete() const {
    std::set<std::size_t> all;
    for (const auto& [leader, held] : files)
        all.insert(held.begin(), held.end());
    return manifest_hash != 0 && all.size() == file_count;
}

std::vector<UnusableCheckpoint> NodeCheckpoint::why_not_complete() const {
    if (!problems.empty())
        return problems;
    return {{step, name, Unusable::unpublished, "not all of it is on these nodes"}};
}

std::optional<int> NodeCheckpoint::owner_of(std::size_t file_index) const {
    for (const auto& [leader, held] : files)
        if (held.contains(file_index))
            return leader;
    return std::nullopt;
}

std::vector<NodeCheckpoint> survey_nodes(Communicator& world, Storage& storage,
                                         const fs::path& directory, const std::vector<int>& leaders,
                                         std::optional<std::int64_t> step) {
    const bool leads = leaders.at(static_cast<std::size_t>(world.rank())) == world.rank();
    std::string here;
    together(world, [&] {
        if (leads)
            here = what_is_here(storage, directory, step);
    });
    return checkpoints_of(merge_texts(
        world, here, [](const std::vector<std::string>& texts) { return text_of(merged(texts)); }));
}

}  // namespace autolaunch
