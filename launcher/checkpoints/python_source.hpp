#pragma once
#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// Has PyTorch read its own distributed checkpoint at `source` and write its tensors to one
/// safetensors file, which may take long and as much memory as the checkpoint. `python` is a
/// program, found in PATH. Throws Error{unsupported} where it cannot be started or lacks torch or
/// safetensors, Error{mismatch} with its last words where it fails.
void convert_with_torch(const std::string& python, const std::filesystem::path& source,
                        const std::filesystem::path& target);

}  // namespace autolaunch::launcher
