#include "checkpoint/commit/node_catalog.hpp"

#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
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

std::set<std::size_t> files_here(Storage& storage, const fs::path& checkpoint,
                                 const Manifest& manifest) {
    const auto names = storage.list(checkpoint);
    std::set<std::size_t> found;
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        const Manifest::File& file = manifest.files[i];
        if (std::binary_search(names.begin(), names.end(), file.name) &&
            again_if_stale([&] { return storage.open(checkpoint / file.name)->size(); }) ==
                file.bytes)
            found.insert(i);
    }
    return found;
}

nlohmann::json described(Storage& storage, const fs::path& directory, const Candidate& candidate) {
    nlohmann::json line = {{"name", candidate.name}, {"step", candidate.step}, {"hash", 0}};
    try {
        const std::string text =
            read_whole(storage, directory / candidate.name / kManifestName, kMaxManifestBytes);
        const Manifest manifest = Manifest::parse(text);
        manifest.require_complete();
        if (manifest.step != candidate.step)
            return line;
        const auto files = files_here(storage, directory / candidate.name, manifest);
        line.update({{"hash", hash64(text.data(), text.size())},
                     {"count", manifest.files.size()},
                     {"files", files}});
        if (manifest.metric)
            line["metric"] = *manifest.metric;
    } catch (const Error&) {  // torn: it counts as one that has nothing
    }
    return line;
}

std::string what_is_here(Storage& storage, const fs::path& directory,
                         std::optional<std::int64_t> step) {
    nlohmann::json all = nlohmann::json::array();
    try {
        for (const Candidate& candidate : list_candidates(storage, directory))
            if (!step || candidate.step == *step)
                all.push_back(described(storage, directory, candidate));
    } catch (const Error&) {
    }
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
        same->files[leader] = line.at("files").get<std::set<std::size_t>>();
}

}  // namespace

std::vector<int> leaders_of_directories(Communicator& world, Storage& storage,
                                        const fs::path& directory) {
    const std::string mine = ".rank-" + random_hex(8);
    together(world, [&] {
        storage.create_directories(directory);
        write_whole(storage, directory / mine, "");
    });
    const auto tokens = gather_texts(world, mine);
    std::int64_t leader = world.rank();
    together(world, [&] {
        for (int rank = 0; rank < leader; ++rank)
            if (is_there(storage, directory / tokens[static_cast<std::size_t>(rank)]))
                leader = rank;
    });
    std::vector<std::int64_t> leaders(static_cast<std::size_t>(world.size()));
    world.all_gather(&leader, leaders.data(), 1, DataType::i64).wait();
    storage.remove_all(directory / mine);
    return {leaders.begin(), leaders.end()};
}

bool NodeCheckpoint::complete() const {
    std::set<std::size_t> all;
    for (const auto& [leader, held] : files)
        all.insert(held.begin(), held.end());
    return manifest_hash != 0 && all.size() == file_count;
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
    const auto texts =
        gather_texts(world, leads ? what_is_here(storage, directory, step) : std::string());
    std::vector<NodeCheckpoint> found;
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
        if (!texts[rank].empty())
            for (const auto& line : nlohmann::json::parse(texts[rank]))
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

}  // namespace autolaunch
