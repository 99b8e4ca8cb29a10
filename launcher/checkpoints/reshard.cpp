#include "checkpoint/load/part_reader.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/checkpoint_writer.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "checkpoints/tensor_stream.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

// What nobody but its recipients could read must not lie open because an option was forgotten.
void require_readers(const OpenCheckpoint& open, const CheckpointRequest& request) {
    if (!is_encrypted(open.manifest) || request.plain || !request.keys.recipients.empty())
        return;
    throw Error(
        ErrorCode::invalid_argument,
        open.path.string() + " is encrypted, and nobody was named who may read what is made of it",
        "--recipient age1... encrypts it; --plain does not");
}

EncryptionOptions to_read_with(const CheckpointRequest& request) {
    EncryptionOptions encryption = encryption_of(request);
    if (request.trust_source) {
        encryption.authentication_key_file.clear();
        encryption.authentication_key_command.clear();
    }
    return encryption;
}

}  // namespace

CheckpointOutcome reshard_checkpoint(const CheckpointRequest& request) {
    require_outside_bucket(request.paths.at(1));
    const OpenCheckpoint open =
        open_to_read(request.paths.at(0), to_read_with(request), request.vault);
    require_readers(open, request);
    Manifest wanted = open.manifest;
    wanted.lineage = lineage_text("reshard", as_parent(open), signer_of(encryption_of(request)));
    std::uint64_t bytes = 0;
    for (auto& tensor : wanted.tensors) {
        tensor.type = wanted_type(tensor.type, request.dtype);
        bytes += bytes_of(tensor);
    }
    std::filesystem::path made;
    {
        ByteProgress progress("resharding", bytes);
        made = write_checkpoint(
            *open.storage, request.paths.at(1), wanted, {request.ranks, encryption_of(request)},
            [&](const fsdp::State& state) {
                const ReadPlan plan =
                    plan_loading(open.manifest, state, {.cast = true, .allow_missing = false});
                read_parts(*open.storage, open.path, open.manifest, plan.parts, open.keys());
                for (const auto& tensor : state)
                    for (const auto& piece : tensor.pieces)
                        progress.add(static_cast<std::uint64_t>(piece.count) *
                                     size_of(tensor.type));
            });
    }
    if (request.json)
        return {made_json("reshard", {{"step", open.manifest.step},
                                      {"from_ranks", open.manifest.world_size},
                                      {"ranks", request.ranks},
                                      {"bytes", bytes},
                                      {"path", made.string()}}),
                0, open.skipped};
    return {fmt::format("step {} of {} ranks, {}, is now of {} ranks: {}\n", open.manifest.step,
                        open.manifest.world_size, format_bytes(bytes), request.ranks,
                        shown(made.string())),
            0, open.skipped};
}

}  // namespace autolaunch::launcher
