#pragma once
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A complete checkpoint that somebody named.
struct OpenCheckpoint {
    std::shared_ptr<Storage> storage;
    std::filesystem::path path;
    Manifest manifest;
    std::vector<std::string> skipped;  ///< newer ones in the directory that are not complete, with the reason
};

/// `path` is a checkpoint, or a directory of checkpoints, whose newest complete one is meant. Throws Error{corrupt}
/// that says what is wrong with it, SystemError where there is nothing.
OpenCheckpoint open_checkpoint(const std::filesystem::path& path);

/// There is a checkpoint at `path` or in it, whole or not.
bool has_checkpoint(const std::filesystem::path& path);

/// Throws SystemError{ENOENT} unless it is a directory.
void require_directory(const std::filesystem::path& path);

/// Parameters are what is neither opaque nor an optimizer's state.
enum class TensorRole { parameter, optimizer, opaque };
TensorRole role_of(const Manifest& manifest, const Manifest::Tensor& tensor);

std::uint64_t bytes_of(const Manifest::Tensor& tensor);
std::uint64_t file_bytes_of(const Manifest& manifest);
/// Its name begins with one of these; all do when there are none.
bool is_selected(const std::string& name, const std::vector<std::string>& only);
/// "[64, 24]"
std::string shape_text(const std::vector<std::int64_t>& shape);
/// As a person may see it: a name of somebody else's file must not write to the terminal.
std::string shown(const std::string& text);

}  // namespace autolaunch::launcher
