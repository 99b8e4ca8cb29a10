#include "checkpoints/byte_progress.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "checkpoints/tensor_stream.hpp"
#include "report/units.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// A file of the export, and its tensors in the order of their data.
struct ExportFile {
    fs::path path;
    std::vector<WantedTensor> tensors;
};

std::vector<WantedTensor> tensors_to_export(const Manifest& manifest,
                                            const CheckpointRequest& request) {
    const TensorIndex all(manifest);
    std::vector<WantedTensor> tensors;
    for (const auto& tensor : manifest.tensors) {
        const TensorRole role = role_of(all, tensor);
        // Whoever names tensors, or asks for all, gets optimizer state too.
        const bool wanted = request.all || !request.only.empty() || role == TensorRole::parameter;
        if (wanted && is_selected(tensor.name, request.only))
            tensors.push_back({&tensor, wanted_type(tensor.type, request.dtype)});
    }
    if (tensors.empty())
        throw Error(ErrorCode::mismatch, "no tensor of the checkpoint is to be exported",
                    "autolaunch ckpt show --tensors lists what it has");
    return tensors;
}

std::vector<std::vector<WantedTensor>> cut(const std::vector<WantedTensor>& tensors,
                                           std::uint64_t max_bytes) {
    std::vector<std::vector<WantedTensor>> files(1);
    std::uint64_t bytes = 0;
    for (const WantedTensor& tensor : tensors) {
        if (bytes > 0 && bytes + tensor.bytes() > max_bytes) {
            files.emplace_back();
            bytes = 0;
        }
        files.back().push_back(tensor);
        bytes += tensor.bytes();
    }
    for (auto& file : files)
        std::stable_sort(file.begin(), file.end(), [](const auto& a, const auto& b) {
            return size_of(a.type) > size_of(b.type);
        });
    return files;
}

// Hugging Face's names: model.safetensors alone, or model-00001-of-00003.safetensors and an index.
std::vector<ExportFile> plan_files(const fs::path& out, const std::vector<WantedTensor>& tensors,
                                   std::uint64_t max_bytes) {
    if (out.extension() == ".safetensors")
        return {{out, cut(tensors, UINT64_MAX)[0]}};
    const auto parts = cut(tensors, max_bytes);
    std::vector<ExportFile> files;
    for (std::size_t i = 0; i < parts.size(); ++i)
        files.push_back({out / (parts.size() == 1 ? std::string("model.safetensors")
                                                  : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                                i + 1, parts.size())),
                         parts[i]});
    return files;
}

void write_file(const OpenCheckpoint& open, const ExportFile& file, ByteProgress& progress) {
    std::vector<safetensors::Entry> entries;
    for (const WantedTensor& tensor : file.tensors)
        entries.push_back({tensor.stored->name, tensor.type, tensor.stored->shape, 0, 0});
    const std::string header = safetensors::encode_header(
        entries, {{"format", "pt"}, {"autolaunch_lineage", published_lineage(as_parent(open))}});
    fs::path temporary = file.path;
    temporary += ".tmp";
    try {
        const auto output = open.storage->create(temporary);
        output->write_at(0, std::as_bytes(std::span(header)));
        std::uint64_t offset = header.size();
        stream_tensors(open, file.tensors,
                       [&](const WantedTensor&, std::span<const std::byte> content) {
                           output->write_at(offset, content);
                           offset += content.size();
                           progress.add(content.size());
                       });
        output->sync();
    } catch (const Error&) {
        open.storage->remove_all(temporary);
        throw;
    }
    open.storage->rename(temporary, file.path);
}

void write_index(const OpenCheckpoint& open, const fs::path& out,
                 const std::vector<ExportFile>& files, std::uint64_t bytes) {
    // Sorted: an ordered object looks through all it has for each that is added.
    auto places = nlohmann::json::object();
    for (const ExportFile& file : files)
        for (const WantedTensor& tensor : file.tensors)
            places[tensor.stored->name] = file.path.filename().string();
    const nlohmann::json index = {{"metadata", {{"total_size", bytes}}},
                                  {"weight_map", std::move(places)}};
    write_whole(*open.storage, out / "model.safetensors.index.json", index.dump(2) + '\n');
}

}  // namespace

CheckpointOutcome export_checkpoint(const CheckpointRequest& request) {
    const fs::path out = request.paths.at(1);
    require_outside_bucket(out);
    const OpenCheckpoint open =
        open_to_read(request.paths.at(0), encryption_of(request), request.vault);
    const auto tensors = tensors_to_export(open.manifest, request);
    const auto files = plan_files(out, tensors, request.max_file_bytes);
    for (const ExportFile& file : files)
        require_free(file.path);
    const fs::path directory = files[0].path.parent_path();
    if (!directory.empty())
        open.storage->create_directories(directory);
    std::uint64_t bytes = 0;
    for (const WantedTensor& tensor : tensors)
        bytes += tensor.bytes();
    {
        ByteProgress progress("exporting", bytes);
        for (const ExportFile& file : files)
            write_file(open, file, progress);
    }
    if (files.size() > 1)
        write_index(open, out, files, bytes);
    open.storage->sync_directory(directory.empty() ? fs::path(".") : directory);
    if (request.json) {
        std::vector<std::string> names;
        for (const ExportFile& file : files)
            names.push_back(file.path.string());
        return {made_json("export", {{"step", open.manifest.step},
                                     {"tensors", tensors.size()},
                                     {"bytes", bytes},
                                     {"files", names}}),
                0, open.skipped};
    }
    return {fmt::format("{} tensors, {} of step {} in {}\n", tensors.size(), format_bytes(bytes),
                        open.manifest.step,
                        files.size() == 1
                            ? shown(files[0].path.string())
                            : fmt::format("{} files in {}", files.size(), shown(out.string()))),
            0, open.skipped};
}

}  // namespace autolaunch::launcher
