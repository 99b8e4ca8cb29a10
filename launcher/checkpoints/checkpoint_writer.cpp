#include "checkpoints/checkpoint_writer.hpp"

#include "base/hash.hpp"
#include "checkpoint/age/encryption_keys.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/format/write_plan.hpp"
#include "checkpoint/save/encrypting_source.hpp"
#include "checkpoints/open_checkpoint.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// One rank's runs of every tensor, with memory for them.
struct RankState {
    RankState(const Manifest& described, int rank, int ranks) {
        for (const auto& tensor : described.tensors) {
            const std::int64_t elements = tensor.element_count();
            const std::int64_t first = cut_at(elements, rank, ranks),
                               last = cut_at(elements, rank + 1, ranks);
            memory.emplace_back(static_cast<std::size_t>(last - first) * size_of(tensor.type));
            state.push_back({tensor.name, tensor.type, tensor.shape, {}, false});
            if (last > first)
                state.back().pieces = {{first, last - first, memory.back().data()}};
        }
    }
    // Cut on multiples of the sharding's own quantum.
    static std::int64_t cut_at(std::int64_t elements, int rank, int ranks) {
        constexpr std::int64_t kQuantum = fsdp::ShardLayout::kQuantum;
        if (rank == ranks)
            return elements;
        const std::int64_t quanta = elements / kQuantum;
        return (quanta / ranks * rank + quanta % ranks * rank / ranks) * kQuantum;
    }

    std::vector<std::vector<std::byte>> memory;
    fsdp::State state;
};

Manifest write_ranks(Storage& storage, const fs::path& unfinished, const Manifest& described_as,
                     const WrittenAs& as, const FillState& fill) {
    const auto recipients = parse_recipients(as.encryption);
    std::vector<Manifest> fragments;
    for (int rank = 0; rank < as.ranks; ++rank) {
        RankState part(described_as, rank, as.ranks);
        fill(part.state);
        const WritePlan plan = plan_shards(part.state, described_as.step, rank, as.ranks);
        fragments.push_back(write_shards(storage, unfinished, plan, *source_of(plan), recipients,
                                         hashes_for(as.encryption)));
    }
    Manifest manifest = merge_fragments(std::move(fragments));
    manifest.generation = described_as.generation;
    manifest.parent_step = described_as.parent_step;
    manifest.saved_unix_ms = described_as.saved_unix_ms;
    manifest.extra = described_as.extra;
    manifest.lineage = described_as.lineage;
    manifest.require_complete();
    return manifest;
}

}  // namespace

fs::path write_checkpoint(Storage& storage, const fs::path& directory, const Manifest& described_as,
                          const WrittenAs& as, const FillState& fill) {
    const fs::path published = directory / checkpoint_name(described_as.step);
    require_free(published);
    // Its name ends as unfinished ones do, so a job's next save there clears what a crash left.
    const AuthenticationKeys keys = AuthenticationKeys::find(as.encryption);
    const crypto::SigningKey signer =
        as.encryption.signing_key_file.empty()
            ? crypto::SigningKey()
            : crypto::SigningKey::read(as.encryption.signing_key_file);
    const fs::path unfinished =
        directory / (checkpoint_name(described_as.step) + ".made-" + random_hex(8) + ".tmp");
    storage.create_directories(unfinished);
    try {
        const Manifest manifest = write_ranks(storage, unfinished, described_as, as, fill);
        write_whole(storage, unfinished / kManifestName, keys.to_text(manifest, signer));
        storage.sync_directory(unfinished);
        read_manifest(storage, unfinished, keys);
    } catch (const Error&) {
        storage.remove_all(unfinished);
        throw;
    }
    storage.rename(unfinished, published);
    storage.sync_directory(directory);
    return published;
}

}  // namespace autolaunch::launcher
