#pragma once
#include <autolaunch/comm/types.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A whole tensor in somebody's safetensors file.
struct SourceTensor {
    std::string name;
    DataType type = DataType::f32;
    std::vector<std::int64_t> shape;
    std::filesystem::path file;
    std::uint64_t offset = 0;  ///< of its first byte in the file
};

/// What is at a path that somebody wants to turn into a checkpoint.
enum class SourceKind {
    safetensors,       ///< a file, or a directory of files with whole tensors (Hugging Face's)
    torch_checkpoint,  ///< PyTorch's distributed checkpoint, of either of its formats: only PyTorch
                       ///< reads it
};
/// Throws SystemError where there is nothing, Error{mismatch} for a checkpoint of ours and for what
/// is neither.
SourceKind kind_of_source(const std::filesystem::path& path);

/// The tensors of a file, or of all safetensors files in a directory, by name. Throws
/// Error{corrupt} for a file that breaks the format's rules or a name that is in two files.
std::vector<SourceTensor> tensors_in(const std::filesystem::path& path);

}  // namespace autolaunch::launcher
