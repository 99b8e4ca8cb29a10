#include "checkpoints/open_checkpoint.hpp"

#include "base/text.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "report/terminal_text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

}  // namespace

void require_directory(const fs::path& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) return;
    throw SystemError(is_there(path) ? ENOTDIR : ENOENT, "open the directory " + path.string(),
                      "name a checkpoint, or a directory of checkpoints");
}

bool has_checkpoint(const fs::path& path) {
    return is_there(path / kManifestName) || !list_candidates(*make_posix_storage(), path).empty();
}

OpenCheckpoint open_checkpoint(const fs::path& path) {
    require_directory(path);
    OpenCheckpoint open{make_posix_storage(), path, {}, {}};
    if (!is_there(path / kManifestName)) {
        const auto newest = find_newest(*open.storage, path, INT64_MAX);
        if (!newest) {
            const auto candidates = list_candidates(*open.storage, path);
            // What is wrong with the newest says more than that there is none.
            if (!candidates.empty()) read_manifest(*open.storage, path / candidates.front().name);
            throw SystemError(ENOENT, "find a checkpoint in " + path.string(),
                              "autolaunch ckpt ls shows what is there");
        }
        open.path = newest->path;
        open.skipped = newest->skipped;
    }
    open.manifest = read_manifest(*open.storage, open.path);
    return open;
}

TensorRole role_of(const Manifest& manifest, const Manifest::Tensor& tensor) {
    if (tensor.name.starts_with("opaque.")) return TensorRole::opaque;
    for (const std::string suffix : {".exp_avg", ".exp_avg_sq", ".momentum_buffer"})
        if (tensor.name.ends_with(suffix) && manifest.find(tensor.name.substr(0, tensor.name.size() - suffix.size())))
            return TensorRole::optimizer;
    return TensorRole::parameter;
}

std::uint64_t bytes_of(const Manifest::Tensor& tensor) {
    return static_cast<std::uint64_t>(tensor.element_count()) * size_of(tensor.type);
}

std::uint64_t file_bytes_of(const Manifest& manifest) {
    std::uint64_t bytes = 0;
    for (const auto& file : manifest.files) bytes += file.bytes;
    return bytes;
}

bool is_selected(const std::string& name, const std::vector<std::string>& only) {
    return only.empty() || std::any_of(only.begin(), only.end(),
                                       [&](const std::string& beginning) { return name.starts_with(beginning); });
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> extents;
    for (const std::int64_t extent : shape) extents.push_back(std::to_string(extent));
    return "[" + join(extents, ", ") + "]";
}

std::string shown(const std::string& text) { return escape_for_terminal(text, Colours::strip); }

}  // namespace autolaunch::launcher
