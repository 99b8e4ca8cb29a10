#pragma once
#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// Has PyTorch read its own distributed checkpoint at `source` and write its tensors to one
/// safetensors file, which may take long and as much memory as the checkpoint. `python` is a
/// program, found in PATH. Its pickles may name what DCP writes and nothing else, so that they run
/// nothing. Returns a line about what was no tensor and left out; empty when nothing was. Throws
/// Error{unsupported} where it cannot be started or lacks torch or safetensors, Error{mismatch}
/// with its last words where it fails, or with what a pickle names.
std::string convert_with_torch(const std::string& python, const std::filesystem::path& source,
                               const std::filesystem::path& target);

}  // namespace autolaunch::launcher
