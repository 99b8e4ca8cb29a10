#include "checkpoint/load/part_reader.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/checkpoint_writer.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "checkpoints/tensor_stream.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {

CheckpointOutcome reshard_checkpoint(const CheckpointRequest& request) {
    const OpenCheckpoint open = open_checkpoint(request.paths.at(0));
    Manifest wanted = open.manifest;
    std::uint64_t bytes = 0;
    for (auto& tensor : wanted.tensors) {
        tensor.type = wanted_type(tensor.type, request.dtype);
        bytes += bytes_of(tensor);
    }
    std::filesystem::path made;
    {
        ByteProgress progress("resharding", bytes);
        made =
            write_checkpoint(*open.storage, request.paths.at(1), wanted, request.ranks, [&](const fsdp::State& state) {
                const ReadPlan plan = plan_loading(open.manifest, state, {.cast = true, .allow_missing = false});
                read_parts(*open.storage, open.path, open.manifest, plan.parts);
                for (const auto& tensor : state)
                    for (const auto& piece : tensor.pieces)
                        progress.add(static_cast<std::uint64_t>(piece.count) * size_of(tensor.type));
            });
    }
    return {fmt::format("step {} of {} ranks, {}, is now of {} ranks: {}\n", open.manifest.step,
                        open.manifest.world_size, format_bytes(bytes), request.ranks, shown(made.string())),
            0};
}

}  // namespace autolaunch::launcher
