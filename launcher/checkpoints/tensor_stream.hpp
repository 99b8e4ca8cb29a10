#pragma once
#include "checkpoints/open_checkpoint.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace autolaunch::launcher {

/// A tensor to read, and the type it is wanted in.
struct WantedTensor {
    const Manifest::Tensor* stored = nullptr;
    DataType type = DataType::f32;

    std::uint64_t bytes() const {
        return static_cast<std::uint64_t>(stored->element_count()) * size_of(type);
    }
};

using UseTensor =
    std::function<void(const WantedTensor& tensor, std::span<const std::byte> content)>;

/// Reads tensors whole and verified, in their order, some at once so that a block is read about
/// once: takes memory for 256 MiB, or for the largest tensor. Throws Error{corrupt} that names what
/// is damaged.
void stream_tensors(const OpenCheckpoint& checkpoint, std::span<const WantedTensor> tensors,
                    const UseTensor& use);

using UseBoth = std::function<void(const WantedTensor& first, std::span<const std::byte> content,
                                   std::span<const std::byte> second_content)>;

/// The same of two checkpoints side by side, in twice the memory: tensors of equal bytes, in the
/// order of both lists.
void stream_both(const OpenCheckpoint& first, std::span<const WantedTensor> of_first,
                 const OpenCheckpoint& second, std::span<const WantedTensor> of_second,
                 const UseBoth& use);

/// f32, f16 and bf16 tensors as `dtype`, others as they are; all as they are when it is empty.
DataType wanted_type(DataType stored, const std::string& dtype);

}  // namespace autolaunch::launcher
