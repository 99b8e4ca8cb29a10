// Checkpoints of nodes that have directories of their own: each holds its own ranks' files.
#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/commit/retention.hpp"
#include "checkpoint/engine.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <exception>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxManifestBytes = 1 << 28;

}  // namespace

bool CheckpointEngine::spread() const {
    return std::any_of(leaders_.begin(), leaders_.end(), [](int leader) { return leader != 0; });
}

bool CheckpointEngine::is_with(int rank) const {
    if (!spread()) return true;
    return leaders_.at(static_cast<std::size_t>(rank)) == leaders_[static_cast<std::size_t>(world_.rank())];
}

bool CheckpointEngine::leads() const {
    return spread() ? leaders_[static_cast<std::size_t>(world_.rank())] == world_.rank() : world_.rank() == 0;
}

int CheckpointEngine::neighbour() const {
    int rank = world_.rank();
    do {
        rank = (rank + 1) % world_.size();
    } while (!is_with(rank));
    return rank;
}

std::string CheckpointEngine::from_leader(Communicator& world, const std::string& text) const {
    if (!spread()) return broadcast_text(world, text, 0);
    const int leader = leaders_[static_cast<std::size_t>(world.rank())];
    return gather_texts(world, text)[static_cast<std::size_t>(leader)];
}

std::optional<CheckpointInfo> CheckpointEngine::newest_far(std::int64_t before, bool needed) {
    std::string text;
    together(world_, [&] {
        if (world_.rank() == 0) text = text_of(newest_there(before, needed));
    });
    return info_of(broadcast_text(world_, text, 0));
}

// What all nodes have together; or the second place's, where that is newer.
std::optional<CheckpointInfo> CheckpointEngine::latest_of_nodes(std::int64_t before) {
    const auto held = survey_nodes(world_, *storage_, options_.directory, leaders_);
    const bool near = std::any_of(held.begin(), held.end(),
                                  [&](const NodeCheckpoint& one) { return one.step < before && one.complete(); });
    const auto far = newest_far(before, !near);
    std::optional<CheckpointInfo> found;
    std::vector<std::string> skipped;
    std::exception_ptr refused;
    for (const NodeCheckpoint& one : held) {
        if (found || one.step >= before || (far && one.step < far->step)) continue;
        const CheckpointInfo info{one.step, options_.directory / one.name, "{}", {}};
        try {
            if (!one.complete()) throw Error(ErrorCode::corrupt, "not all of it is on these nodes");
            found = info;
            found->extra = Manifest::parse(sources_of(info).manifest_text).extra;
        } catch (const Error& error) {  // the same on all ranks
            if (error.code() != ErrorCode::corrupt) throw;
            found.reset();
            skipped.push_back(one.name + ": " + error.what());
            if (one.complete()) refused = std::current_exception();
        }
    }
    if (!found) found = far;
    if (!found && refused) std::rethrow_exception(refused);
    if (!found) return found;
    found->skipped.insert(found->skipped.begin(), skipped.begin(), skipped.end());
    for (const std::string& reason : found->skipped) note("passed over " + reason);
    newest_known_ = found->step;
    return found;
}

// The checkpoint's manifest, and who has its files. Collective.
NodeSources CheckpointEngine::sources_of(const CheckpointInfo& checkpoint) {
    const std::string name = checkpoint.path.filename().string();
    const auto all = survey_nodes(world_, *storage_, options_.directory, leaders_, checkpoint.step);
    const bool is_far =
        broadcast_text(world_, checkpoint.path.parent_path() == options_.directory ? "" : "far", 0) == "far";
    NodeSources sources;
    const fs::path far = is_far ? checkpoint.path : fs::path(options_.drain.place) / checkpoint_name(checkpoint.step);
    std::string far_text;
    together(world_, [&] {
        if (world_.rank() != 0) return;
        try {
            read_manifest(*storage_, far, authentication_keys());
            far_text = read_whole(*storage_, far / kManifestName, kMaxManifestBytes);
        } catch (const Error&) {
            if (is_far) throw;
        }
    });
    far_text = broadcast_text(world_, far_text, 0);
    if (is_far) {
        const std::uint64_t hash = hash64(far_text.data(), far_text.size());
        for (const NodeCheckpoint& one : all)
            if (one.manifest_hash == hash) sources.held = one;
        sources.manifest_text = far_text;
        sources.far = far;
    } else {
        const auto found = std::find_if(all.begin(), all.end(),
                                        [&](const NodeCheckpoint& one) { return one.name == name && one.complete(); });
        if (found == all.end())
            throw Error(ErrorCode::corrupt, checkpoint.path.string() + " is not whole on these nodes any more");
        sources.held = *found;
        const int owner = found->files.begin()->first;
        together(world_, [&] {
            if (world_.rank() == owner)
                sources.manifest_text =
                    read_whole(*storage_, options_.directory / name / kManifestName, kMaxManifestBytes);
        });
        sources.manifest_text = broadcast_text(world_, sources.manifest_text, owner);
        if (sources.manifest_text == far_text) sources.far = far;
    }
    together(world_, [&] {
        if (world_.rank() == 0)
            authentication_keys().require_authentic(sources.manifest_text, (checkpoint.path / kManifestName).string());
    });
    sources.here = options_.directory / sources.held.name;
    return sources;
}

// What is damaged here may be whole in the second place.
void CheckpointEngine::read_from_nodes(const NodeSources& sources, const Manifest& manifest,
                                       std::span<const ReadPart> parts) {
    if (!readers_)
        readers_ = world_.backend() == "nccl"
                       ? std::nullopt
                       : world_.split(leaders_[static_cast<std::size_t>(world_.rank())], world_.rank());
    ReadKeys keys;
    together(world_, [&] { keys = keys_for(manifest); });
    const auto from = [&](const NodeSources& these) {
        read_parts_of_nodes(world_, *storage_, these, leaders_, manifest, parts, *readers_, keys);
    };
    try {
        from(sources);
    } catch (const Error& error) {
        const bool damaged = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::system;
        if (!damaged || sources.far.empty() || sources.held.files.empty()) throw;
        note(std::string("read from ") + sources.far.string() + " instead: " + error.what());
        NodeSources far_only = sources;
        far_only.held.files.clear();
        from(far_only);
    }
}

// What leaves the nodes' directories. What is complete can only be said by all of them.
std::vector<std::string> CheckpointEngine::remove_list(Communicator& world, std::int64_t step) {
    const auto held = survey_nodes(world, *storage_, options_.directory, leaders_);
    std::vector<KeptCheckpoint> checkpoints;
    for (const NodeCheckpoint& one : held)
        if (checkpoints.empty() || checkpoints.back().name != one.name) checkpoints.push_back({one.step, one.name});
    return no_longer_kept(checkpoints, options_, step,
                          [&](const std::string& name) -> std::optional<CompleteCheckpoint> {
                              for (const NodeCheckpoint& one : held)
                                  if (one.name == name && one.complete()) return CompleteCheckpoint{one.metric};
                              return std::nullopt;
                          });
}

void CheckpointEngine::tidy_nodes(Communicator& world, std::int64_t step) {
    const auto going = remove_list(world, step);
    if (!leads()) return;
    tidy(step, [&] {
        const auto pinned = events_.pinned ? events_.pinned() : std::nullopt;
        const auto names = storage_->list(options_.directory);
        for (const std::string& name : going)
            if (std::binary_search(names.begin(), names.end(), name) && (!pinned || name != checkpoint_name(*pinned)))
                remove_checkpoint(*storage_, options_.directory, name);
    });
}

}  // namespace autolaunch
