#include "base/hash.hpp"
#include "checkpoint/age/encryption_keys.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/engine.hpp"
#include "checkpoint/format/opaque_tensors.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/group_reader.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/state_rules.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch {

namespace {

// What ranks of a node must agree about to share blocks.
std::uint64_t hash_of_names(const fsdp::State& state) {
    std::string text;
    for (const auto& tensor : state) text += tensor.name + (tensor.replicated ? "\tr\n" : "\ts\n");
    return hash64(text.data(), text.size());
}

bool is_damage(const Error& error) { return error.code() == ErrorCode::corrupt || error.code() == ErrorCode::system; }

}  // namespace

// Rank 0 reads it for all.
Manifest CheckpointEngine::shared_manifest(const CheckpointInfo& checkpoint) {
    std::string text;
    together(world_, [&] {
        if (world_.rank() == 0) text = read_manifest(*storage_, checkpoint.path, authentication_keys()).to_text();
    });
    text = broadcast_text(world_, text, 0);
    Manifest manifest;
    together(world_, [&] {
        manifest = Manifest::parse(text);
        if (manifest.step != checkpoint.step)
            throw Error(ErrorCode::mismatch, checkpoint.path.string() + " is of step " + std::to_string(manifest.step) +
                                                 ", not " + std::to_string(checkpoint.step));
    });
    return manifest;
}

// Where nothing is encrypted nobody is asked for a key to open it. The authentication key is rank 0's alone; that there
// is one all ranks know.
ReadKeys CheckpointEngine::keys_for(const Manifest& manifest) {
    ReadKeys keys;
    if (is_authenticated(options_.encryption)) keys.check = BlockCheck::tampering;
    const bool encrypted = std::any_of(manifest.files.begin(), manifest.files.end(),
                                       [](const Manifest::File& file) { return file.plain_bytes.has_value(); });
    if (!encrypted) return keys;
    if (identities_.empty()) identities_ = find_identities(options_.encryption);
    keys.identities = identities_;
    return keys;
}

std::vector<std::string> CheckpointEngine::load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                                const LoadOptions& options) {
    together(world_, [&] { require_valid(state); });
    require_equal(world_, hash_of_names(state), "the ranks load tensors of different names");
    std::optional<NodeSources> sources;
    const Manifest manifest = manifest_of(checkpoint, sources);
    ReadPlan plan;
    together(world_, [&] {
        plan = plan_loading(manifest, state, {.cast = options.cast, .allow_missing = options.allow_missing});
    });
    read(checkpoint, sources, manifest, plan.parts);
    return plan.missing;
}

Manifest CheckpointEngine::manifest_of(const CheckpointInfo& checkpoint, std::optional<NodeSources>& sources) {
    if (!spread()) return shared_manifest(checkpoint);
    sources = sources_of(checkpoint);
    Manifest manifest;
    together(world_, [&] { manifest = Manifest::parse(sources->manifest_text); });
    return manifest;
}

void CheckpointEngine::read(const CheckpointInfo& checkpoint, const std::optional<NodeSources>& sources,
                            const Manifest& manifest, std::span<const ReadPart> parts) {
    if (sources) return read_from_nodes(*sources, manifest, parts);
    if (!readers_) readers_ = ranks_of_this_node(world_);
    ReadKeys keys;
    together(world_, [&] { keys = keys_for(manifest); });
    together(world_, [&] { read_parts_in_group(*storage_, checkpoint.path, manifest, parts, *readers_, keys); });
}

std::optional<CheckpointInfo> CheckpointEngine::load_latest(const fsdp::State& state, const LoadOptions& options) {
    std::vector<std::string> damaged;
    auto found = latest(INT64_MAX);
    while (found) {
        try {
            load(*found, state, options);
            found->skipped.insert(found->skipped.begin(), damaged.begin(), damaged.end());
            return found;
        } catch (const Error& error) {
            if (!options.fall_back || !is_damage(error)) throw;
            damaged.push_back(checkpoint_name(found->step) + ": " + error.what());
            note("passed over " + damaged.back());
            found = latest(found->step);
            // Starting from nothing, where something was saved, is for a person to decide.
            if (!found) throw;
        }
    }
    return std::nullopt;
}

std::vector<std::string> CheckpointEngine::load_opaque(const CheckpointInfo& checkpoint, const std::string& name) {
    std::optional<NodeSources> sources;
    const Manifest manifest = manifest_of(checkpoint, sources);
    const auto tensors = find_opaque(manifest, name);
    std::vector<std::string> values(tensors.size());
    ReadPlan plan;
    together(world_, [&] {
        if (world_.rank() != 0) return;
        fsdp::State state;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const std::int64_t bytes = tensors[i]->element_count();
            values[i].resize(static_cast<std::size_t>(bytes));
            state.push_back({tensors[i]->name, DataType::u8, tensors[i]->shape, {}, false});
            if (bytes > 0) state.back().pieces = {{0, bytes, reinterpret_cast<std::byte*>(values[i].data())}};
        }
        plan = plan_loading(manifest, state);
        if (!spread()) read_parts(*storage_, checkpoint.path, manifest, plan.parts, keys_for(manifest));
    });
    if (sources) read_from_nodes(*sources, manifest, plan.parts);
    for (std::string& value : values) value = broadcast_text(world_, value, 0);
    return values;
}

}  // namespace autolaunch
