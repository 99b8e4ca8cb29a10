// A directory of each node, which holds its own ranks' files: what is there can only be said by all
// of them.
#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/commit/node_catalog.hpp"
#include "checkpoint/commit/retention.hpp"
#include "checkpoint/load/node_reader.hpp"
#include "checkpoint/place/place.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

class CheckpointOnNodes final : public PublishedCheckpoint {
public:
    CheckpointOnNodes(NodeSources sources, Manifest manifest, const PlaceTools& tools,
                      const std::vector<int>& leaders, NodeReaders& readers)
        : PublishedCheckpoint(std::move(manifest)),
          sources_(std::move(sources)),
          tools_(tools),
          leaders_(leaders),
          readers_(readers) {}

    // What is damaged here may be whole in a further place; what is damaged there, in the next.
    void read(std::span<const ReadPart> parts) override {
        Communicator& world = tools_.world;
        if (!readers_)
            readers_ =
                world.backend() == "nccl"
                    ? std::nullopt
                    : world.split(leaders_[static_cast<std::size_t>(world.rank())], world.rank());
        ReadKeys keys;
        together(world, [&] { keys = tools_.keys.reading(manifest_); });
        const auto from = [&](const NodeSources& sources) {
            read_parts_of_nodes(world, tools_.storage, sources, leaders_, manifest_, parts,
                                *readers_, keys);
        };
        for (;;) {
            try {
                return from(sources_);
            } catch (const Error& error) {
                if (!is_damage(error) || !next_sources())
                    throw;
                tell_second_try(tools_, sources_.far, error);
            }
        }
    }

    void read_alone(std::span<const ReadPart> parts) override { read(parts); }

    fs::path path() const override {
        return sources_.held.files.empty() ? sources_.far : sources_.here;
    }

private:
    // The same on all ranks.
    bool next_sources() {
        const bool had_nodes = !sources_.held.files.empty();
        sources_.held.files.clear();
        if (had_nodes && !sources_.far.empty())
            return true;
        if (sources_.further.empty())
            return false;
        sources_.far = sources_.further.front();
        sources_.further.erase(sources_.further.begin());
        return true;
    }

    NodeSources sources_;
    const PlaceTools& tools_;
    const std::vector<int>& leaders_;
    NodeReaders& readers_;
};

class NodeDirectories final : public CheckpointPlace {
public:
    NodeDirectories(PlaceTools tools, std::vector<int> leaders)
        : CheckpointPlace(std::move(tools)), leaders_(std::move(leaders)) {
        if (further_.empty())
            throw Error(ErrorCode::invalid_argument,
                        "nodes with directories of their own need a drain.place or tiers");
    }

    int leader_of(int rank) const override { return leaders_.at(static_cast<std::size_t>(rank)); }
    std::string to_leaders(Communicator& world, std::string text) const override {
        return broadcast_text(world, std::move(text), 0);
    }
    std::string from_leader(Communicator& world, const std::string& text) const override {
        return take_text(world, text, leaders_);
    }

    std::optional<CheckpointInfo> latest(const StepRange& range,
                                         const KnownCheckpoints& known) override;
    std::optional<std::int64_t> newest_step() override { return newest_known_; }
    std::unique_ptr<PublishedCheckpoint> open(const CheckpointInfo& checkpoint) override;
    void tidy(Communicator& world, std::int64_t step) override;

private:
    std::vector<Search> search_drained_for_all(const StepRange& range,
                                               const KnownCheckpoints& known);
    Search search_nodes(const StepRange& range);
    std::string drained_manifest(const fs::path& path, bool is_needed);
    NodeSources sources_of(const CheckpointInfo& checkpoint);
    void add_copies(NodeSources& sources, std::int64_t step);
    struct Going {
        std::vector<std::string> names;
        std::vector<UnusableCheckpoint> unknown;  // these stay
    };
    Going no_longer_kept_anywhere(Communicator& world, std::int64_t step);

    std::vector<int> leaders_;  // by rank
    std::optional<std::int64_t> newest_known_;
    NodeReaders readers_;
};

std::vector<Search> NodeDirectories::search_drained_for_all(const StepRange& range,
                                                            const KnownCheckpoints& known) {
    std::vector<std::string> texts(further_.size());
    together(tools_.world, [&] {
        if (tools_.world.rank() != 0)
            return;
        const auto found = search_drained(range, known);
        std::transform(found.begin(), found.end(), texts.begin(),
                       [](const Search& search) { return text_of(search); });
    });
    std::vector<Search> found;
    for (const std::string& text : texts)
        found.push_back(search_of(broadcast_text(tools_.world, text, 0)));
    return found;
}

Search NodeDirectories::search_nodes(const StepRange& range) {
    const fs::path& directory = tools_.options.directory;
    Search search;
    for (const NodeCheckpoint& one :
         survey_nodes(tools_.world, tools_.storage, directory, leaders_)) {
        if (search.found || !range.contains(one.step))
            continue;
        if (!one.complete()) {
            const auto why = one.why_not_complete();
            search.unusable.insert(search.unusable.end(), why.begin(), why.end());
            continue;
        }
        CheckpointInfo info{one.step, directory / one.name, "{}", {}};
        try {
            info.extra = Manifest::parse(sources_of(info).manifest_text).extra;
            search.found = std::move(info);
        } catch (const Error& error) {  // the same on all ranks
            if (error.code() != ErrorCode::corrupt)
                throw;
            search.unusable.push_back({one.step, one.name, Unusable::damaged, error.what()});
        }
    }
    return search;
}

std::optional<CheckpointInfo> NodeDirectories::latest(const StepRange& range,
                                                      const KnownCheckpoints& known) {
    std::vector<Search> places = search_drained_for_all(range, known);
    // Of what is as new the nodes' own is nearer; older ones need not be looked at.
    StepRange newer = known.left_here(range);
    for (const Search& place : places)
        if (place.found)
            newer.above = std::max(newer.above, place.found->step - 1);
    places.insert(places.begin(), search_nodes(newer));
    auto found = choose(std::move(places), known);
    if (found && !found->in_memory)
        newest_known_ = found->step;
    return found;
}

// A further place's text of a manifest, on every rank; empty when it has none and needs none.
std::string NodeDirectories::drained_manifest(const fs::path& path, bool is_needed) {
    std::string text;
    together(tools_.world, [&] {
        if (tools_.world.rank() != 0)
            return;
        try {
            read_manifest(tools_.storage, path, tools_.keys.authentication());
            text = read_whole(tools_.storage, path / kManifestName, kMaxManifestBytes);
        } catch (const Error& error) {
            if (is_needed)
                throw;
            tell_no_copy(tools_, path, error);
        }
    });
    return broadcast_text(tools_.world, text, 0);
}

// The further places that have the very same one.
void NodeDirectories::add_copies(NodeSources& sources, std::int64_t step) {
    for (const fs::path& copy : drained_copies(tools_, step)) {
        if (copy == sources.far || drained_manifest(copy, false) != sources.manifest_text)
            continue;
        if (sources.far.empty())
            sources.far = copy;
        else
            sources.further.push_back(copy);
    }
}

// The checkpoint's manifest, and who has its files.
NodeSources NodeDirectories::sources_of(const CheckpointInfo& checkpoint) {
    Communicator& world = tools_.world;
    const fs::path& directory = tools_.options.directory;
    const std::string name = checkpoint.path.filename().string();
    const auto all = survey_nodes(world, tools_.storage, directory, leaders_, checkpoint.step);
    const bool is_far =
        broadcast_text(world, directory / name == checkpoint.path ? "" : "far", 0) == "far";
    NodeSources sources;
    if (is_far) {
        const std::string text = drained_manifest(checkpoint.path, true);
        const std::uint64_t hash = hash64(text.data(), text.size());
        for (const NodeCheckpoint& one : all)
            if (one.manifest_hash == hash)
                sources.held = one;
        sources.manifest_text = text;
        sources.far = checkpoint.path;
    } else {
        const auto found = std::find_if(all.begin(), all.end(), [&](const NodeCheckpoint& one) {
            return one.name == name && one.complete();
        });
        if (found == all.end())
            throw Error(ErrorCode::corrupt,
                        checkpoint.path.string() + " is not whole on these nodes any more");
        sources.held = *found;
        const int owner = found->files.begin()->first;
        together(world, [&] {
            if (world.rank() == owner)
                sources.manifest_text =
                    read_whole(tools_.storage, directory / name / kManifestName, kMaxManifestBytes);
        });
        sources.manifest_text = broadcast_text(world, sources.manifest_text, owner);
    }
    add_copies(sources, checkpoint.step);
    together(world, [&] {
        if (world.rank() == 0)
            tools_.keys.authentication().require_authentic(
                sources.manifest_text, (checkpoint.path / kManifestName).string());
    });
    sources.here = directory / sources.held.name;
    return sources;
}

std::unique_ptr<PublishedCheckpoint> NodeDirectories::open(const CheckpointInfo& checkpoint) {
    NodeSources sources = sources_of(checkpoint);
    Manifest manifest;
    together(tools_.world, [&] { manifest = Manifest::parse(sources.manifest_text); });
    return std::make_unique<CheckpointOnNodes>(std::move(sources), std::move(manifest), tools_,
                                               leaders_, readers_);
}

NodeDirectories::Going NodeDirectories::no_longer_kept_anywhere(Communicator& world,
                                                                std::int64_t step) {
    const auto held = survey_nodes(world, tools_.storage, tools_.options.directory, leaders_);
    std::vector<KeptCheckpoint> checkpoints;
    for (const NodeCheckpoint& one : held)
        if (checkpoints.empty() || checkpoints.back().name != one.name)
            checkpoints.push_back({one.step, one.name});
    Going going;
    const auto look = [&](const KeptCheckpoint& checkpoint) {
        LookedAt found;
        for (const NodeCheckpoint& one : held) {
            if (one.name != checkpoint.name)
                continue;
            if (found.state == LookedAt::incomplete && one.complete())
                found = {LookedAt::complete, one.metric};
            for (const UnusableCheckpoint& problem : one.problems) {
                if (!is_unknown(problem.why))
                    continue;
                found = {LookedAt::unknown, {}};
                going.unknown.push_back(problem);
            }
        }
        return found;
    };
    going.names = no_longer_kept(checkpoints, tools_.options, step, look);
    return going;
}

void NodeDirectories::tidy(Communicator& world, std::int64_t step) {
    newest_known_ = step;
    Going going;
    try {
        going = no_longer_kept_anywhere(world, step);
    } catch (const Error& error) {  // on all ranks
        tools_.note(std::string("nothing is deleted: ") + error.what());
    }
    if (!leads())
        return;
    tidy_directory(step, [&](const std::set<std::int64_t>& pinned) {
        const fs::path& directory = tools_.options.directory;
        const auto names = tools_.storage.list(directory);
        for (const std::string& name : going.names)
            if (std::binary_search(names.begin(), names.end(), name) &&
                std::none_of(pinned.begin(), pinned.end(),
                             [&](std::int64_t one) { return name == checkpoint_name(one); }))
                remove_checkpoint(tools_.storage, directory, name, tools_.deleted);
        return going.unknown;
    });
}

}  // namespace

std::unique_ptr<CheckpointPlace> make_node_directories(PlaceTools tools, std::vector<int> leaders) {
    return std::make_unique<NodeDirectories>(std::move(tools), std::move(leaders));
}

}  // namespace autolaunch
