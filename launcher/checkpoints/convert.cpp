#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "checkpoint/storage/storage.hpp"
#include "checkpoints/byte_progress.hpp"
#include "checkpoints/checkpoint_writer.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "checkpoints/python_source.hpp"
#include "checkpoints/tensor_source.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <unordered_map>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// A file in a directory that is removed at the end.
class TemporaryFile {
public:
    explicit TemporaryFile(const fs::path& beside)
        : path_(beside / (".converted-" + random_hex(8) + ".safetensors")) {}
    ~TemporaryFile() {
        std::error_code ignored;
        fs::remove(path_, ignored);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

Manifest described(const std::vector<SourceTensor>& tensors, std::int64_t step) {
    Manifest manifest;
    manifest.step = step;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    manifest.saved_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    for (const SourceTensor& tensor : tensors)
        manifest.tensors.push_back({tensor.name, tensor.type, tensor.shape, {}});
    return manifest;
}

// Reads one rank's runs.
void fill(Storage& storage, const std::vector<SourceTensor>& tensors, const fsdp::State& state,
          ByteProgress& progress) {
    for (std::size_t i = 0; i < state.size(); ++i) {
        for (const auto& piece : state[i].pieces) {
            const std::uint64_t element_bytes = size_of(tensors[i].type);
            const auto bytes = static_cast<std::size_t>(piece.count) * element_bytes;
            const auto file = storage.open(tensors[i].file);
            const auto offset =
                tensors[i].offset + static_cast<std::uint64_t>(piece.offset) * element_bytes;
            if (file->read_at(offset, {piece.data, bytes}) != bytes)
                throw Error(ErrorCode::corrupt,
                            tensors[i].file.string() + " ends inside tensor " + tensors[i].name);
            progress.add(bytes);
        }
    }
}

}  // namespace

CheckpointOutcome convert_to_checkpoint(const CheckpointRequest& request) {
    const fs::path source = request.paths.at(0), directory = request.paths.at(1);
    require_outside_bucket(directory);
    if (is_in_bucket(source))
        throw Error(ErrorCode::unsupported,
                    "cannot convert " + source.string() + ": it is in a bucket",
                    "copy it to a directory first");
    const auto storage = make_posix_storage();
    const SourceKind kind = kind_of_source(source);
    storage->create_directories(directory);
    const TemporaryFile temporary(directory);
    std::string left_out;
    if (kind == SourceKind::torch_checkpoint)
        left_out = convert_with_torch(request.python, source, temporary.path());
    const auto tensors =
        tensors_in(kind == SourceKind::torch_checkpoint ? temporary.path() : source);
    Manifest manifest = described(tensors, request.step.value_or(0));
    manifest.lineage = lineage_text("convert", std::nullopt, signer_of(encryption_of(request)),
                                    absolute_path(source).string());
    std::uint64_t bytes = 0;
    for (const auto& tensor : manifest.tensors)
        bytes += bytes_of(tensor);
    fs::path made;
    {
        ByteProgress progress("converting", bytes);
        made = write_checkpoint(
            *storage, directory, manifest, {request.ranks, encryption_of(request)},
            [&](const fsdp::State& state) { fill(*storage, tensors, state, progress); });
    }
    if (request.json)
        return {made_json("convert", {{"step", manifest.step},
                                      {"tensors", tensors.size()},
                                      {"bytes", bytes},
                                      {"ranks", request.ranks},
                                      {"path", made.string()},
                                      {"left_out", left_out}}),
                0};
    if (!left_out.empty())
        left_out = shown(left_out) + '\n';
    std::vector<const Manifest::Tensor*> all;
    for (const auto& tensor : manifest.tensors)
        all.push_back(&tensor);
    return {fmt::format("{}{} tensors, {}, are now {}\n{}", left_out, tensors.size(),
                        format_bytes(bytes), shown(made.string()), counts_by_role(manifest, all)),
            0};
}

}  // namespace autolaunch::launcher
