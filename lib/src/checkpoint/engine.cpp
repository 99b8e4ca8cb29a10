#include "checkpoint/engine.hpp"

#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/catalog.hpp"
#include "checkpoint/file_writer.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/shard_file.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <set>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

// What a trainer could get wrong about one rank's state.
void require_valid(const fsdp::State& state) {
    std::set<std::string_view> names;
    for (const auto& tensor : state) {
        const auto reject = [&](const std::string& problem) {
            throw Error(ErrorCode::invalid_argument, "state tensor " + tensor.name + " " + problem);
        };
        if (tensor.name.empty()) reject("has no name");
        if (!names.insert(tensor.name).second) reject("is named twice");
        const std::int64_t elements = fsdp::ParameterSpec{tensor.name, tensor.shape}.element_count();
        if (elements > INT64_MAX / static_cast<std::int64_t>(size_of(tensor.type))) reject("is too large");
        for (const auto& piece : tensor.pieces) {
            if (piece.count <= 0 || piece.offset < 0 || piece.offset > elements - piece.count)
                reject("has a piece outside its shape");
            if (!piece.data) reject("has a piece without memory");
        }
        const bool whole = tensor.pieces.size() == 1 && tensor.pieces[0].count == elements;
        if (tensor.replicated && !whole) reject("is replicated, but this rank does not hold all of it");
    }
}

std::uint64_t hash_of(std::int64_t step, const fsdp::State& state) {
    std::string text = std::to_string(step);
    for (const auto& tensor : state) {
        text += '\n' + tensor.name + '\t' + std::string(name_of(tensor.type)) + (tensor.replicated ? " r" : " s");
        for (const std::int64_t extent : tensor.shape) text += ' ' + std::to_string(extent);
    }
    return hash64(text.data(), text.size());
}

// CheckpointInfo as text for the other ranks; empty for none.
std::string encode(const std::optional<CheckpointInfo>& info) {
    if (!info) return {};
    return json_text(
        {{"step", info->step}, {"path", info->path.string()}, {"extra", info->extra}, {"skipped", info->skipped}});
}

std::optional<CheckpointInfo> decode(const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto json = nlohmann::json::parse(text);
    return CheckpointInfo{json.at("step"), json.at("path").get<std::string>(), json.at("extra"), json.at("skipped")};
}

}  // namespace

CheckpointEngine::CheckpointEngine(std::shared_ptr<Storage> storage, Communicator world,
                                   const CheckpointOptions& options, CheckpointEvents events)
    : storage_(std::move(storage)), world_(std::move(world)), options_(options), events_(std::move(events)) {
    if (options_.keep < 1)
        throw Error(ErrorCode::invalid_argument, "keep is " + std::to_string(options_.keep) + "; it must be 1 or more");
    if (options_.directory.empty()) throw Error(ErrorCode::invalid_argument, "the checkpoint directory is empty");
}

CheckpointInfo CheckpointEngine::save(std::int64_t step, const fsdp::State& state, const SaveOptions& options) {
    const auto start = std::chrono::steady_clock::now();
    require_same_state(step, state, options.extra);
    const fs::path published = options_.directory / checkpoint_name(step);
    fs::path unfinished = published;
    unfinished += kUnfinishedSuffix;
    together(world_, [&] {
        if (world_.rank() != 0) return;
        storage_->create_directories(options_.directory);
        remove_leftovers(*storage_, options_.directory);
        storage_->create_directories(unfinished);
    });
    Manifest manifest = write_and_verify(unfinished, step, state);
    manifest.extra = broadcast_text(world_, options.extra, 0);
    together(world_, [&] {
        if (world_.rank() == 0) publish(unfinished, manifest);
    });
    const std::chrono::duration<double> stall = std::chrono::steady_clock::now() - start;
    if (world_.rank() == 0) {
        if (events_.published) events_.published(step, published, stall.count());
        tidy(step);
    }
    return {step, published, manifest.extra, {}};
}

void CheckpointEngine::require_same_state(std::int64_t step, const fsdp::State& state, const std::string& extra) {
    together(world_, [&] {
        if (step < 0) throw Error(ErrorCode::invalid_argument, "step " + std::to_string(step) + " is negative");
        require_valid(state);
        if (!nlohmann::json::accept(extra))
            throw Error(ErrorCode::invalid_argument, "SaveOptions::extra is not JSON text");
    });
    require_equal(world_, hash_of(step, state),
                  "the ranks save different steps, or tensors with other names or shapes");
}

// Every rank reads back its neighbour's file, so that what one machine wrote has been seen by another.
Manifest CheckpointEngine::write_and_verify(const fs::path& unfinished, std::int64_t step, const fsdp::State& state) {
    const int rank = world_.rank(), world_size = world_.size();
    std::string fragment;
    together(world_, [&] {
        const WritePlan plan = plan_shards(state, step, rank, world_size);
        fragment = described(plan, write_files(*storage_, unfinished, plan)).to_text();
    });
    const auto texts = gather_texts(world_, fragment);
    Manifest manifest;
    together(world_, [&] {
        std::vector<Manifest> fragments;
        for (const std::string& text : texts) fragments.push_back(Manifest::parse(text));
        manifest = merge_fragments(std::move(fragments));
        manifest.require_complete();
        for (const Manifest::File& file : manifest.files)
            if (file.rank == (rank + 1) % world_size) verify_file(*storage_, unfinished, file);
    });
    return manifest;
}

void CheckpointEngine::publish(const fs::path& unfinished, const Manifest& manifest) {
    const fs::path& directory = options_.directory;
    write_whole(*storage_, unfinished / "manifest.tmp", manifest.to_text());
    storage_->rename(unfinished / "manifest.tmp", unfinished / kManifestName);
    storage_->sync_directory(unfinished);
    read_manifest(*storage_, unfinished);
    const std::string name = checkpoint_name(manifest.step);
    const auto candidates = list_candidates(*storage_, directory);
    for (const Candidate& candidate : candidates) {
        // The same step saved again: the old one stays findable until the new one is durable.
        if (candidate.name != name) continue;
        storage_->rename(directory / name, directory / (name + kReplacedSuffix));
        storage_->sync_directory(directory);
    }
    storage_->rename(unfinished, directory / name);
    storage_->sync_directory(directory);
}

// The checkpoint is durable: what fails from here on costs space or convenience, not the checkpoint.
void CheckpointEngine::tidy(std::int64_t step) {
    try {
        storage_->replace_link(options_.directory / kLatestName, checkpoint_name(step));
        remove_leftovers(*storage_, options_.directory);
        remove_old(*storage_, options_.directory, options_.keep, step);
    } catch (const Error& error) {
        if (events_.note) events_.note(std::string("checkpoint: cannot tidy up: ") + error.what());
    }
}

std::optional<CheckpointInfo> CheckpointEngine::latest(std::int64_t before) {
    std::optional<CheckpointInfo> found;
    std::string text;
    together(world_, [&] {
        if (world_.rank() != 0) return;
        found = find_newest(*storage_, options_.directory, before);
        text = encode(found);
    });
    if (world_.rank() == 0 && found && events_.note)
        for (const std::string& reason : found->skipped) events_.note("checkpoint: passed over " + reason);
    return decode(broadcast_text(world_, text, 0));
}

void CheckpointEngine::load(const CheckpointInfo& checkpoint, const fsdp::State& state) {
    std::string text;
    together(world_, [&] {
        require_valid(state);
        if (world_.rank() == 0) text = read_manifest(*storage_, checkpoint.path).to_text();
    });
    text = broadcast_text(world_, text, 0);
    together(world_, [&] {
        const Manifest manifest = Manifest::parse(text);
        if (manifest.step != checkpoint.step)
            throw Error(ErrorCode::mismatch, checkpoint.path.string() + " is of step " + std::to_string(manifest.step) +
                                                 ", not " + std::to_string(checkpoint.step));
        read_shards(*storage_, checkpoint.path, manifest, plan_reads(manifest, state));
    });
}

}  // namespace autolaunch
