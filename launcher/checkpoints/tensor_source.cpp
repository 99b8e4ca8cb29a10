#include "checkpoints/tensor_source.hpp"

#include "base/file_system.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <set>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

safetensors::Header header_of(const fs::path& path) {
    const auto file = make_posix_storage()->open(path);
    const std::uint64_t bytes = file->size();
    try {
        std::string start(std::min<std::uint64_t>(8, bytes), '\0');
        file->read_at(0, std::as_writable_bytes(std::span(start)));
        start.resize(8 + safetensors::header_bytes(start, bytes));
        file->read_at(0, std::as_writable_bytes(std::span(start)));
        return safetensors::parse_header(start, bytes);
    } catch (const Error& error) {
        throw Error(error.code(), path.string() + ": " + error.what(), error.hint());
    }
}

std::vector<fs::path> files_in(const fs::path& path) {
    if (is_file(path))
        return {path};
    auto files = list_folder(path);
    std::erase_if(files, [](const fs::path& file) { return file.extension() != ".safetensors"; });
    return files;
}

}  // namespace

SourceKind kind_of_source(const fs::path& path) {
    const auto files = files_in(path);
    if (path_exists(path / kManifestName))
        throw Error(ErrorCode::mismatch, path.string() + " is a checkpoint of autolaunch already",
                    "autolaunch ckpt reshard makes one for another number of ranks of it");
    if (path_exists(path / ".metadata"))
        return SourceKind::torch_checkpoint;
    if (files.empty())
        throw Error(ErrorCode::mismatch,
                    path.string() + " has no safetensors file and is no PyTorch checkpoint");
    for (const fs::path& file : files)
        if (header_of(file).metadata.contains("DCP_SHARDING_INFO"))
            return SourceKind::torch_checkpoint;
    return SourceKind::safetensors;
}

std::vector<SourceTensor> tensors_in(const fs::path& path) {
    std::vector<SourceTensor> tensors;
    std::set<std::string> names;
    for (const fs::path& file : files_in(path)) {
        const auto header = header_of(file);
        for (const auto& entry : header.entries) {
            if (!names.insert(entry.name).second)
                throw Error(ErrorCode::corrupt,
                            "two files in " + path.string() + " have a tensor " + entry.name);
            tensors.push_back(
                {entry.name, entry.type, entry.shape, file, header.data_begin + entry.begin});
        }
    }
    std::sort(tensors.begin(), tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return tensors;
}

}  // namespace autolaunch::launcher
